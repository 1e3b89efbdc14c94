//! Collects elements, writes them in chunks, and can repeat the last element.

use tensorferry_sdk::{ByteSink, Result};

/// Number of bytes per write.
const CHUNK: usize = 64 << 10;

/// Writes elements of a fixed width.
pub(crate) struct Emitter<'a> {
    output: &'a mut dyn ByteSink,
    buffer: Vec<u8>,
    /// The most recently written bytes, whose number is the width of an element.
    last: Vec<u8>,
    width: usize,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(width: usize, output: &'a mut dyn ByteSink) -> Self {
        Self { output, buffer: Vec::with_capacity(CHUNK), last: vec![0; width], width }
    }

    /// Appends bytes, which may end in the middle of an element.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.last.extend_from_slice(&bytes[bytes.len().saturating_sub(self.width)..]);
        self.last.drain(..self.last.len() - self.width);
        self.append(bytes)
    }

    /// Appends an element that consists of the low bytes of an integer.
    pub(crate) fn push_low(&mut self, value: u64) -> Result<()> {
        let width = self.width.min(8);
        self.push(&value.to_le_bytes()[..width])
    }

    /// Appends `times` copies of the last element, or zeros if no element has been written.
    pub(crate) fn repeat(&mut self, times: u64) -> Result<()> {
        let element = std::mem::take(&mut self.last);
        self.fill(&element, times)
    }

    /// Appends `element` the given number of times.
    pub(crate) fn fill(&mut self, element: &[u8], times: u64) -> Result<()> {
        let at_once = (CHUNK / element.len().max(1)).max(1);
        let chunk = element.repeat(usize::try_from(times).unwrap_or(at_once).min(at_once));
        let at_once = at_once as u64;
        (0..times / at_once).try_for_each(|_| self.append(&chunk))?;
        let rest = usize::try_from(times % at_once).unwrap_or(0);
        self.append(&chunk[..rest * element.len()])
    }

    /// Writes the remaining bytes.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > CHUNK {
            self.flush()?;
        }
        if bytes.len() > CHUNK {
            return self.output.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.output.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
