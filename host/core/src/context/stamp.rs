//! A stamp detects whether a file has changed, without reading the file.

use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Metadata that changes when a file is replaced or written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub device: u64,
    /// The inode number of the file on its device.
    pub inode: u64,
    pub len: u64,
    /// The time of the last change of the content: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// The time of the last change of content or metadata.
    pub changed: (i64, i64),
}

impl Stamp {
    #[must_use]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
