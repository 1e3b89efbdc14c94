//! A file's identity stays the same when the file is renamed, and changes with its content.

use crate::context::remote::RemoteStamp;
use crate::context::stamp::Stamp;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Distinguishes files of the same name. The device is not included, since its
/// number may change with a restart. Length and time are included, since inode numbers are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The inode number. For a remote file, 64 bits of a digest of the tag that identifies its
    /// content.
    pub inode: u64,
    pub len: u64,
    /// Modification time in seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl FileIdentity {
    pub fn of(meta: &Metadata) -> Self {
        Self { inode: meta.ino(), len: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }

    pub(super) fn of_stamp(stamp: &Stamp) -> Self {
        Self { inode: stamp.inode, len: stamp.len, modified: stamp.modified }
    }

    /// Returns the identity of an object that is being written. The rest is known only when it
    /// becomes visible.
    pub fn of_len(len: u64) -> Self {
        Self { inode: 0, len, modified: (0, 0) }
    }

    /// Whether only the length is known.
    #[must_use]
    pub fn is_of_len_alone(&self) -> bool {
        (self.inode, self.modified) == (0, (0, 0))
    }

    /// That of a file beyond a network.
    pub fn of_remote(stamp: &RemoteStamp) -> Self {
        let digest = blake3::hash(stamp.tag.as_bytes());
        let first = digest.as_bytes().first_chunk().copied().unwrap_or_default();
        Self { inode: u64::from_le_bytes(first), len: stamp.len, modified: stamp.modified }
    }
}
