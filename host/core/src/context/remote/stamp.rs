//! Stamps that distinguish versions of a remote file.

/// Metadata of a remote file that changes when the file is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteStamp {
    /// The size of the file in bytes.
    pub len: u64,
    /// An identifier of the content: the kind of identifier (a version, an `ETag` or a digest) and
    /// its value. A tag that begins with `sha256:` is the content's own hash in hexadecimal. If a
    /// file is read completely, ferry checks it against this hash.
    pub tag: String,
    /// The modification time in seconds and nanoseconds, if the place reports this time.
    pub modified: (i64, i64),
}
