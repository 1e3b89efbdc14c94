//! Defines byte sinks, which receive bytes in order, such as decoded storages, streamed files and
//! indexes.

use crate::Result;

/// A receiver of bytes that are produced in order.
pub trait ByteSink {
    /// Appends bytes.
    ///
    /// # Errors
    /// Returns an error if the destination fails, or a plugin error if the bytes exceed the
    /// promised length.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}

impl ByteSink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}
