//! Reads an uncompressed file, or part of one, through a buffer.

use super::{WINDOW, Window};
use std::ops::Deref;
use tensorferry_sdk::{FileId, Result, Source};

pub(crate) struct PlainWindow<S> {
    source: S,
    file: FileId,
    /// The end of the range.
    end: u64,
    buffer: Vec<u8>,
    /// The offset of the buffer's first byte in the file.
    start: u64,
    /// Number of bytes in the buffer that contain file data.
    filled: usize,
}

impl<S: Deref<Target: Source>> PlainWindow<S> {
    /// Opens a window on the bytes before `end`.
    pub(crate) fn new(source: S, file: FileId, end: u64) -> Self {
        Self { source, file, end, buffer: Vec::new(), start: 0, filled: 0 }
    }

    #[cold]
    fn refill(&mut self, offset: u64, min: usize) -> Result<()> {
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        // The buffer never becomes longer than what remains of the file.
        let wanted = min.max(WINDOW).min(left);
        if wanted > self.buffer.len() || self.buffer.len() > 4 * WINDOW.max(wanted) {
            self.buffer = vec![0; wanted];
        }
        self.filled = 0;
        self.source.read_at(self.file, offset, &mut self.buffer[..wanted])?;
        self.start = offset;
        self.filled = wanted;
        Ok(())
    }
}

impl<S: Deref<Target: Source>> Window for PlainWindow<S> {
    #[inline]
    fn at(&mut self, offset: u64, min: usize) -> Result<&[u8]> {
        let skipped = usize::try_from(offset.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        if skipped <= self.filled && self.filled - skipped >= min {
            return Ok(&self.buffer[skipped..self.filled]);
        }
        self.refill(offset, min)?;
        Ok(&self.buffer[..self.filled])
    }

    fn len(&self) -> Option<u64> {
        Some(self.end)
    }
}
