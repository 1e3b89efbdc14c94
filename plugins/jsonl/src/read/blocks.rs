//! Reads a range of lines into memory in blocks of whole lines.

use super::line_range::{LineRange, too_long};
use std::io::Read;
use tensorferry_sdk::{Limits, Result};

/// Bytes of the first reads; a line that is longer doubles the buffer.
const READ: usize = 256 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Lines, and where they lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// The lines, with their ends.
    pub(super) text: &'a [u8],
    /// The first one's offset in the file, once decompressed.
    pub(super) offset: u64,
    /// The number of the first one in the range, from 0.
    pub(super) line: u64,
    /// How many of them are rows.
    pub(super) rows: usize,
}

/// Gives the lines of a range in blocks.
pub(super) struct Blocks {
    range: LineRange,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// What of the buffer was given already, and what of it is filled.
    given: usize,
    filled: usize,
    is_at_end: bool,
    offset: u64,
    line: u64,
    most: u64,
}

impl Blocks {
    /// # Errors
    /// I/o.
    pub(super) fn new(range: &LineRange, limits: &Limits) -> Result<Self> {
        Ok(Self {
            range: range.clone(),
            input: range.bytes()?,
            buffer: vec![0; READ],
            given: 0,
            filled: 0,
            is_at_end: false,
            offset: range.start,
            line: 0,
            most: limits.header_bytes,
        })
    }

    /// The next lines: at most `rows` rows, and about `bytes` bytes, but one row at least.
    ///
    /// # Errors
    /// I/o, malformed (a codec's), or a line that is too long.
    pub(super) fn next(&mut self, rows: usize, bytes: u64) -> Result<Option<Block<'_>>> {
        if self.offset == 0 && self.filled == 0 {
            while self.filled < BYTE_ORDER_MARK.len() && !self.is_at_end {
                self.fill()?;
            }
            if self.buffer[..self.filled].starts_with(BYTE_ORDER_MARK) {
                self.given = BYTE_ORDER_MARK.len();
                self.offset = BYTE_ORDER_MARK.len() as u64;
            }
        }
        let mut end = self.given;
        let mut count = 0;
        let mut lines = 0;
        while count < rows && (count == 0 || ((end - self.given) as u64) < bytes) {
            let Some(line_end) = self.line_end(&mut end)? else { break };
            count += usize::from(!self.buffer[end..line_end].trim_ascii().is_empty());
            lines += 1;
            end = line_end;
        }
        if end == self.given {
            return Ok(None);
        }
        let text = &self.buffer[self.given..end];
        let block = Block { text, offset: self.offset, line: self.line, rows: count };
        self.given = end;
        self.offset += text.len() as u64;
        self.line += lines;
        Ok(Some(block))
    }

    /// The end of the line that begins at `start`, which moves with the buffer; none behind the last.
    fn line_end(&mut self, start: &mut usize) -> Result<Option<usize>> {
        let mut searched = *start;
        loop {
            if let Some(place) = memchr::memchr(b'\n', &self.buffer[searched..self.filled]) {
                return Ok(Some(searched + place + 1));
            }
            searched = self.filled;
            if self.is_at_end {
                return Ok((self.filled > *start).then_some(self.filled));
            }
            if (self.filled - *start) as u64 > self.most {
                let offset = self.offset + (*start - self.given) as u64;
                return Err(too_long(self.most).file(self.range.file()).offset(offset));
            }
            let moved = self.fill()?;
            (*start, searched) = (*start - moved, searched - moved);
        }
    }

    /// Reads on; how far what is in the buffer moved to its beginning.
    fn fill(&mut self) -> Result<usize> {
        let moved = self.given;
        if moved > 0 {
            self.buffer.copy_within(self.given..self.filled, 0);
            (self.given, self.filled) = (0, self.filled - moved);
        }
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let len = match self.input.read(&mut self.buffer[self.filled..]) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(moved),
            result => result.map_err(|error| self.range.failed(error).offset(self.offset))?,
        };
        self.filled += len;
        self.is_at_end = len == 0;
        Ok(moved)
    }
}
