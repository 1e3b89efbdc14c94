//! What the engine asks of places that it writes to.

use super::stamp::RemoteStamp;
use std::ops::Range;
use tensorferry_sdk::Result;

/// An object that will be written.
#[derive(Debug, Clone, Default)]
pub struct NewObject {
    /// Bytes, if that is known.
    pub len: Option<u64>,
    /// Ranges whose bytes are known when all others are: they are [written late](RemoteUpload::write_late), whatever is
    /// written there before.
    pub late: Vec<Range<u64>>,
}

/// What may stand under an object's name when it becomes visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Absent,
    /// The object that was there before.
    Same(RemoteStamp),
    /// Anything, which is replaced.
    Any,
}

/// An object on its way. Its bytes are sent while others are written, from several threads and in any order; nothing of it
/// is visible before it is committed. One that is dropped without that leaves nothing.
pub trait RemoteUpload: Send + Sync {
    /// Takes bytes to their place; each byte comes once. It waits where bytes come faster than they are sent.
    ///
    /// # Errors
    /// I/o, transient, cancelled: whatever has failed so far, also of bytes that came earlier.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Takes the bytes of a part of one of the [late](NewObject::late) ranges.
    fn write_late(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Says how long it will be, where that was not known when it was begun.
    fn ends_at(&self, len: u64) -> Result<()>;

    /// Bytes; of an object whose length was not known when it was begun, those that it has so far.
    fn bytes(&self) -> u64;

    /// Waits until the place has every byte.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at); a plugin error, where a byte was never written.
    fn finish(&self) -> Result<()>;

    /// Makes it visible, whole; gives what has to be said of how that was done.
    ///
    /// # Errors
    /// Usage, if something has come to stand under the name where nothing may; transient, if another object has.
    fn commit(&self, condition: &Condition) -> Result<Option<String>>;
}
