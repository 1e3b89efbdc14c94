//! What tells a file beyond a network from another of its name.

/// What changes when a file is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteStamp {
    /// Bytes.
    pub len: u64,
    /// What the place tells a file's content by: a version, an `ETag`, a digest; with what it is. One that begins with
    /// `sha256:` is the content's own, in hexadecimal digits, and what was read whole is held against it.
    pub tag: String,
    /// When it was written, in seconds and nanoseconds, where the place says it.
    pub modified: (i64, i64),
}
