//! A window on a stretch of a file: what is read in order, and taken piece by piece.

use crate::varint;
use tensorferry_sdk::{Error, FileId, Result, Source};

/// Bytes read at once.
const WINDOW_BYTES: u64 = 64 << 10;
/// The longest varint.
const MOST_VARINT: usize = 10;

/// Reads a file from a place to another, in order.
pub(super) struct Window<'a> {
    source: &'a dyn Source,
    file: FileId,
    /// Where in the file the next read begins.
    next: u64,
    end: u64,
    buffer: Vec<u8>,
    /// How much of the buffer was taken.
    taken: usize,
}

impl<'a> Window<'a> {
    /// A window from `start` to `end`. Nothing is read or allocated yet.
    pub(super) fn new(source: &'a dyn Source, file: FileId, start: u64, end: u64) -> Self {
        Self { source, file, next: start, end, buffer: Vec::new(), taken: 0 }
    }

    /// Where in the file the bytes that were not taken begin.
    pub(super) fn position(&self) -> u64 {
        self.next - self.unread().len() as u64
    }

    /// Takes a varint.
    ///
    /// # Errors
    /// Malformed, if there is none before the end; i/o.
    pub(super) fn varint(&mut self) -> Result<u64> {
        if self.unread().len() < MOST_VARINT {
            self.fill()?;
        }
        let mut rest = self.unread();
        let before = rest.len();
        let Some(value) = varint::take(&mut rest) else {
            return Err(Error::malformed("a varint breaks off")
                .file(self.source.name(self.file))
                .offset(self.position()));
        };
        self.taken += before - rest.len();
        Ok(value)
    }

    /// Takes up to `most` bytes, at least one.
    ///
    /// # Errors
    /// Malformed at the end; i/o.
    pub(super) fn some(&mut self, most: u64) -> Result<&[u8]> {
        if self.unread().is_empty() {
            self.fill()?;
        }
        let start = self.taken;
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(self.unread().len());
        if len == 0 {
            return Err(Error::malformed("the entry ends too early")
                .file(self.source.name(self.file))
                .offset(self.end)
                .expected(format!("{most} more bytes")));
        }
        self.taken += len;
        Ok(&self.buffer[start..start + len])
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Moves what is left to the front, and reads behind it.
    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let more = (self.end - self.next).min(WINDOW_BYTES.saturating_sub(self.buffer.len() as u64));
        let kept = self.buffer.len();
        self.buffer.resize(kept + usize::try_from(more).unwrap_or_default(), 0);
        self.source.read_at(self.file, self.next, &mut self.buffer[kept..])?;
        self.next += more;
        Ok(())
    }
}
