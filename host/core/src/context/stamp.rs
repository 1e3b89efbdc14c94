//! A stamp tells whether a file is still the one that was looked at, without reading it.

use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What changes when a file is replaced or written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// The device that the file lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its bytes.
    pub len: u64,
    /// When its content was written: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// When anything of it was changed.
    pub changed: (i64, i64),
}

impl Stamp {
    /// The stamp of the file that this is the metadata of.
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
