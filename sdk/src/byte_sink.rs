//! A byte sink takes what is produced in order: decoded storages, streamed files, indexes.

use crate::Result;

/// Takes bytes in order.
pub trait ByteSink {
    /// Appends.
    ///
    /// # Errors
    /// Whatever the place they go to gives; a plugin error, past a length that was promised.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}

impl ByteSink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}
