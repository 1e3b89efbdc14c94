//! The identity of a file. The identity remains the same when the file is renamed, and changes when
//! the file's content changes.

use crate::context::remote::RemoteStamp;
use crate::context::stamp::Stamp;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// An identity that distinguishes different files with the same name. The identity does not include
/// the device number, which may change when the machine restarts. It includes the length and the
/// time, because inode numbers are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The inode number of a local file. For a remote file, 64 bits of the digest of its content
    /// tag.
    pub inode: u64,
    pub len: u64,
    /// The modification time in seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl FileIdentity {
    pub fn of(meta: &Metadata) -> Self {
        Self { inode: meta.ino(), len: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }

    pub(super) fn of_stamp(stamp: &Stamp) -> Self {
        Self { inode: stamp.inode, len: stamp.len, modified: stamp.modified }
    }

    /// Returns the identity of an object that is being written. Only its length is known until the
    /// object becomes visible.
    pub fn of_len(len: u64) -> Self {
        Self { inode: 0, len, modified: (0, 0) }
    }

    /// Returns whether only the length of the file is known.
    #[must_use]
    pub fn is_of_len_alone(&self) -> bool {
        (self.inode, self.modified) == (0, (0, 0))
    }

    /// Returns the identity of a remote file.
    pub fn of_remote(stamp: &RemoteStamp) -> Self {
        let digest = blake3::hash(stamp.tag.as_bytes());
        let first = digest.as_bytes().first_chunk().copied().unwrap_or_default();
        Self { inode: u64::from_le_bytes(first), len: stamp.len, modified: stamp.modified }
    }
}
