//! Reads the bytes of a file in order through a buffer, for decoders.

use std::ops::Deref;
use tensorferry_sdk::{FileId, Result, Source};

const BUFFER: u64 = 128 << 10;

/// A position in a file, and a buffer with bytes that start at this position.
pub(crate) struct Input<S> {
    source: S,
    file: FileId,
    /// The offset of the first byte after the buffer.
    next: u64,
    buffer: Vec<u8>,
    taken: usize,
}

impl<S: Deref<Target: Source>> Input<S> {
    pub(crate) fn new(source: S, file: FileId) -> Self {
        Self { source, file, next: 0, buffer: Vec::new(), taken: 0 }
    }

    /// Returns the offset of the next byte in the file.
    pub(crate) fn position(&self) -> u64 {
        self.next - (self.buffer.len() - self.taken) as u64
    }

    /// Returns the number of bytes from the current position to the end of the file.
    pub(crate) fn left(&self) -> u64 {
        self.source.len(self.file) - self.position()
    }

    /// Returns the next bytes. The result is empty only at the end of the file.
    pub(crate) fn fill(&mut self) -> Result<&[u8]> {
        if self.taken == self.buffer.len() {
            let len = BUFFER.min(self.source.len(self.file) - self.next);
            // `len` does not exceed `BUFFER`.
            self.buffer.resize(usize::try_from(len).unwrap_or(0), 0);
            self.taken = self.buffer.len();
            self.source.read_at(self.file, self.next, &mut self.buffer)?;
            self.taken = 0;
            self.next += len;
        }
        Ok(&self.buffer[self.taken..])
    }

    /// Consumes `count` of the bytes that [`fill`](Self::fill) returned.
    pub(crate) fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.buffer.len());
    }

    /// Returns the next byte, or `None` at the end.
    pub(crate) fn byte(&mut self) -> Result<Option<u8>> {
        let byte = self.fill()?.first().copied();
        self.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Returns the next `N` bytes. If fewer bytes remain, returns the number of remaining bytes as
    /// the inner error.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<Result<[u8; N], usize>> {
        let mut array = [0; N];
        for (index, slot) in array.iter_mut().enumerate() {
            match self.byte()? {
                Some(byte) => *slot = byte,
                None => return Ok(Err(index)),
            }
        }
        Ok(Ok(array))
    }
}
