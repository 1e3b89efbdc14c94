//! A window on what a decoder gives. It grows as data comes, never by what a file claims.

use super::{WINDOW, Window};
use tensorferry_sdk::{Error, Result};

/// Gives decompressed bytes in order.
pub(crate) trait Decoder: Send {
    /// Appends some bytes to `output`, about `most`; none at the end.
    fn decode(&mut self, output: &mut Vec<u8>, most: usize) -> Result<usize>;
}

/// A window on a decoder's bytes.
pub(crate) struct DecodedWindow<D> {
    decoder: D,
    /// Bytes that have been decoded and may still be looked at.
    buffer: Vec<u8>,
    /// Where the buffer's first byte lies in all decoded bytes.
    start: u64,
    ended: bool,
    /// Why there is no more; told when more is asked for.
    failed: Option<Error>,
}

impl<D: Decoder> DecodedWindow<D> {
    /// Before the first byte.
    pub(crate) fn new(decoder: D) -> Self {
        Self { decoder, buffer: Vec::new(), start: 0, ended: false, failed: None }
    }

    /// Drops what lies before `offset`, and decodes until `least` bytes follow it.
    #[cold]
    fn advance(&mut self, offset: u64, least: usize) -> Result<()> {
        loop {
            let before = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
            let drop = before.min(self.buffer.len());
            self.start += drop as u64;
            self.buffer.drain(..drop);
            if drop == before && self.buffer.len() >= least || self.ended {
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
    fn at(&mut self, offset: u64, least: usize) -> Result<&[u8]> {
        let skipped = usize::try_from(offset.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let is_there = skipped <= self.buffer.len() && self.buffer.len() - skipped >= least;
        if !is_there {
            self.advance(offset, least)?;
        }
        let skipped = usize::try_from(offset.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        Ok(self.buffer.get(skipped..).unwrap_or_default())
    }

    fn len(&self) -> Option<u64> {
        None
    }
}
