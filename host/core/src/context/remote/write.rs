//! The traits for writing to remote places.

use super::stamp::RemoteStamp;
use std::ops::Range;
use tensorferry_sdk::Result;

#[derive(Debug, Clone, Default)]
pub struct NewObject {
    /// The size of the object in bytes, if the size is known.
    pub len: Option<u64>,
    /// Ranges whose bytes are known only after all other bytes have been written.
    /// [`write_late`](RemoteUpload::write_late) writes these bytes and replaces any earlier bytes
    /// in the ranges.
    pub late: Vec<Range<u64>>,
}

/// The commit condition of a new object: which existing object, if any, the commit may replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// No object exists under the name.
    Absent,
    /// The object with this stamp still exists under the name.
    Same(RemoteStamp),
    /// Any object may exist under the name. The commit replaces it.
    Any,
}

/// An object that is being written. Several threads may write its bytes in any order. Some parts
/// are uploaded while other parts are still being written. Nothing is visible before the commit.
/// Dropping an uncommitted upload leaves nothing behind.
pub trait RemoteUpload: Send + Sync {
    /// Writes bytes at an offset. Callers write each byte only once. Blocks if bytes arrive faster
    /// than they can be sent. Returns an error if this write or the upload of earlier bytes has
    /// failed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes bytes of one of the [late](NewObject::late) ranges.
    fn write_late(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Sets the final length of the object, if the length was unknown at the start.
    fn ends_at(&self, len: u64) -> Result<()>;

    /// Returns the final length, or the number of bytes written so far if the length was unknown at
    /// the start.
    fn bytes(&self) -> u64;

    /// Waits until the place has received every byte. Returns a plugin error if some bytes were
    /// never written.
    fn finish(&self) -> Result<()>;

    /// Makes the complete object visible. Returns a message for the user, if there is something to
    /// report. Returns a usage error if an object exists but the condition is `Absent`, and a
    /// transient error if the existing object has changed.
    fn commit(&self, condition: &Condition) -> Result<Option<String>>;
}
