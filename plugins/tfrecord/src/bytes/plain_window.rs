//! A file that is not compressed, or a range of one, through a buffer.

use super::{WINDOW, Window};
use std::ops::Deref;
use tensorferry_sdk::{FileId, Result, Source};

/// A window on a file.
pub(crate) struct PlainWindow<S> {
    source: S,
    file: FileId,
    /// Nothing is given from here on.
    end: u64,
    buffer: Vec<u8>,
    /// Where the buffer's first byte lies in the file.
    start: u64,
    /// How much of the buffer holds bytes of the file.
    filled: usize,
}

impl<S: Deref<Target: Source>> PlainWindow<S> {
    /// A window on the bytes before `end`.
    pub(crate) fn new(source: S, file: FileId, end: u64) -> Self {
        Self { source, file, end, buffer: Vec::new(), start: 0, filled: 0 }
    }

    #[cold]
    fn refill(&mut self, offset: u64, least: usize) -> Result<()> {
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        // `least` is never allocated for more than the file has.
        let wanted = least.max(WINDOW).min(left);
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
    fn at(&mut self, offset: u64, least: usize) -> Result<&[u8]> {
        let skipped = usize::try_from(offset.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        if skipped <= self.filled && self.filled - skipped >= least {
            return Ok(&self.buffer[skipped..self.filled]);
        }
        self.refill(offset, least)?;
        Ok(&self.buffer[..self.filled])
    }

    fn len(&self) -> Option<u64> {
        Some(self.end)
    }
}
