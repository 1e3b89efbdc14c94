//! The identity of a file: what stays the same through a rename and changes with its content.

use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What tells a file from another of the same name. Without the device, whose number may be another after
/// a restart; with length and time, since inode numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The inode's number.
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
}
