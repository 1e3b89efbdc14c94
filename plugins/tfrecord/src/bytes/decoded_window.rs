//! A window on the output of a decoder. The size of the window depends on the data that has been
//! decoded, not on the sizes that a file claims.

use super::{WINDOW, Window};
use tensorferry_sdk::{Error, Result};

pub(crate) trait Decoder: Send {
    /// Appends about `max` decoded bytes to `output`. Returns the number of appended bytes, which
    /// is 0 at the end.
    fn decode(&mut self, output: &mut Vec<u8>, max: usize) -> Result<usize>;
}

pub(crate) struct DecodedWindow<D> {
    decoder: D,
    /// Decoded bytes that are still accessible.
    buffer: Vec<u8>,
    /// The offset of the buffer's first byte in the decoded data.
    start: u64,
    ended: bool,
    /// The error that ended decoding. It is returned when further bytes are requested.
    failed: Option<Error>,
}

impl<D: Decoder> DecodedWindow<D> {
    pub(crate) fn new(decoder: D) -> Self {
        Self { decoder, buffer: Vec::new(), start: 0, ended: false, failed: None }
    }

    /// Drops the bytes before `offset`, and decodes until the buffer contains at least `min` bytes.
    #[cold]
    fn advance(&mut self, offset: u64, min: usize) -> Result<()> {
        loop {
            let before = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
            let drop = before.min(self.buffer.len());
            self.start += drop as u64;
            self.buffer.drain(..drop);
            if drop == before && self.buffer.len() >= min || self.ended {
                return Ok(());
            }
            if let Some(error) = &self.failed {
                return Err(error.clone());
            }
            match self.decoder.decode(&mut self.buffer, WINDOW) {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) => self.failed = Some(error),
            }
        }
    }
}

impl<D: Decoder> Window for DecodedWindow<D> {
    #[inline]
    fn at(&mut self, offset: u64, min: usize) -> Result<&[u8]> {
        let skipped = usize::try_from(offset.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let is_there = skipped <= self.buffer.len() && self.buffer.len() - skipped >= min;
        if !is_there {
            self.advance(offset, min)?;
        }
        let skipped = usize::try_from(offset.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        Ok(self.buffer.get(skipped..).unwrap_or_default())
    }

    fn len(&self) -> Option<u64> {
        None
    }
}
