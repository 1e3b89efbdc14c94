//! The identity of a file: what stays the same through a rename and changes with its content.

use crate::context::remote::RemoteStamp;
use crate::context::stamp::Stamp;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What tells a file from another of the same name. Without the device, whose number may be another after
/// a restart; with length and time, since inode numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The inode's number; of a file beyond a network, 64 bits of a digest of what its place tells its content by.
    pub inode: u64,
    /// In bytes.
    pub len: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl FileIdentity {
    /// That of a file with this metadata.
    pub fn of(meta: &Metadata) -> Self {
        Self { inode: meta.ino(), len: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }

    /// That of a file with this stamp.
    pub(super) fn of_stamp(stamp: &Stamp) -> Self {
        Self { inode: stamp.inode, len: stamp.len, modified: stamp.modified }
    }

    /// That of an object on its way: what tells it from others it gets when it becomes visible.
    pub fn of_len(len: u64) -> Self {
        Self { inode: 0, len, modified: (0, 0) }
    }

    /// Whether only its length is known.
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
