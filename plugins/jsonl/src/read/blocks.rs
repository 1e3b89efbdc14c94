//! Reads a range of lines into memory, in blocks of whole lines.

use super::line_range::{LineRange, MEMORY_OF_A_BYTE, too_long};
use std::io::Read;
use tensorferry_sdk::{Error, Limits, Result};

/// Initial size of the buffer in bytes. The size doubles if a line does not fit.
const READ: usize = 256 << 10;
/// A buffer of at least this size in bytes grows by a quarter instead of doubling.
const LARGE_BUFFER: usize = 16 << 20;
/// After this many bytes of blank lines, an empty block is returned so that the caller can check
/// for cancellation.
const BLANK_BYTES_PER_CANCEL_CHECK: u64 = 64 << 20;
/// Memory per value in bytes, in addition to the value's text. This includes the elements on the
/// decoder's tape and the decoded value.
const MEMORY_OF_A_VALUE: u64 = 40;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Consecutive whole lines, and their position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// The lines, including their line endings.
    pub(super) text: &'a [u8],
    /// Offset of the first line in the decompressed file.
    pub(super) offset: u64,
    /// Number of the first line in the range, starting from 0.
    pub(super) line: u64,
    /// Number of lines that are rows. Blank lines are not rows.
    pub(super) rows: usize,
}

/// A line that is a row.
pub(super) struct RowLine<'a> {
    /// The line, including its line ending.
    pub(super) text: &'a [u8],
    /// Offset of the line in the decompressed file.
    pub(super) offset: u64,
    /// Number of the line in the range, starting from 0.
    pub(super) line: u64,
}

impl<'a> Block<'a> {
    /// Returns an iterator over the lines that are rows.
    pub(super) fn row_lines(self) -> impl Iterator<Item = RowLine<'a>> {
        let Self { mut text, mut offset, mut line, .. } = self;
        std::iter::from_fn(move || {
            let blank = blank_lines(text);
            let rest = &text[blank.bytes..];
            if is_blank(rest) {
                return None;
            }
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |place| place + 1);
            let row =
                RowLine { text: &rest[..end], offset: offset + blank.bytes as u64, line: line + blank.lines };
            (text, offset, line) = (&rest[end..], row.offset + end as u64, row.line + 1);
            Some(row)
        })
    }
}

/// The blank lines at the beginning of a buffer: their number and their total length in bytes.
struct BlankLines {
    bytes: usize,
    lines: u64,
}

/// Counts the blank lines at the beginning of `text` in one step, since a compressed file can
/// contain billions of them.
fn blank_lines(text: &[u8]) -> BlankLines {
    let blank = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
    let bytes = memchr::memrchr(b'\n', &text[..blank]).map_or(0, |place| place + 1);
    BlankLines { bytes, lines: memchr::memchr_iter(b'\n', &text[..bytes]).count() as u64 }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii_start().is_empty()
}

/// Estimates the memory in bytes that decoding a line requires. For a line that certainly needs
/// less than `max` bytes, the estimate may be too low. The text exists three times, in the buffer,
/// in the decoder and in the column. A number or list can take one byte of text and tens of bytes
/// of memory.
fn memory_for(line: &[u8], max: u64) -> u64 {
    let text = line.len() as u64 * MEMORY_OF_A_BYTE;
    if (line.len() as u64) * (MEMORY_OF_A_BYTE + MEMORY_OF_A_VALUE) <= max {
        return text;
    }
    // The count includes separators within strings, which are rare.
    text + memchr::memchr2_iter(b',', b':', line).count() as u64 * MEMORY_OF_A_VALUE
}

/// An iterator that returns the lines of a range in blocks.
pub(super) struct Blocks {
    range: LineRange,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Number of bytes in the buffer that have been returned, and total number of bytes in the
    /// buffer.
    given: usize,
    filled: usize,
    is_at_end: bool,
    offset: u64,
    line: u64,
    max: u64,
}

impl Blocks {
    pub(super) fn new(range: &LineRange, limits: &Limits) -> Result<Self> {
        Ok(Self {
            range: range.clone(),
            input: range.bytes(limits)?,
            buffer: vec![0; READ],
            given: 0,
            filled: 0,
            is_at_end: false,
            offset: range.start,
            line: 0,
            max: limits.header_bytes,
        })
    }

    /// Returns the next block of lines, with at most `rows` rows and about `bytes` bytes, but at
    /// least one row. After many blank lines, returns an empty block.
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
        let begin = self.offset;
        while count < rows && (count == 0 || ((end - self.given) as u64) < bytes) {
            let blank = blank_lines(&self.buffer[end..self.filled]);
            (end, lines) = (end + blank.bytes, lines + blank.lines);
            if count == 0 {
                // Do not keep blank lines before the first row in the buffer.
                self.give(end, lines);
                lines = 0;
                if self.offset - begin >= BLANK_BYTES_PER_CANCEL_CHECK {
                    return Ok(Some(Block { text: &[], offset: self.offset, line: self.line, rows: 0 }));
                }
            }
            let Some(line_end) = self.line_end(&mut end)? else { break };
            let line = &self.buffer[end..line_end];
            count += usize::from(!is_blank(line));
            if memory_for(line, self.max) > self.max {
                return Err(self.too_long(end));
            }
            lines += 1;
            end = line_end;
        }
        if count == 0 {
            return Ok(None);
        }
        let (from, offset, line) = (self.given, self.offset, self.line);
        self.give(end, lines);
        Ok(Some(Block { text: &self.buffer[from..end], offset, line, rows: count }))
    }

    /// Marks the buffer up to `end`, which contains `lines` more lines, as returned.
    fn give(&mut self, end: usize, lines: u64) {
        self.offset += (end - self.given) as u64;
        self.line += lines;
        self.given = end;
    }

    /// Returns the number of lines in the range that have been returned or skipped.
    pub(super) fn lines(&self) -> u64 {
        self.line
    }

    /// Returns the end of the line at `start`, or `None` after the last line. If the content of the
    /// buffer moves, adjusts `start`.
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
            if (self.filled - *start) as u64 > self.max / MEMORY_OF_A_BYTE {
                return Err(self.too_long(*start));
            }
            let moved = self.fill()?;
            (*start, searched) = (*start - moved, searched - moved);
        }
    }

    fn too_long(&self, start: usize) -> Error {
        let offset = self.offset + (start - self.given) as u64;
        too_long(self.max).file(self.range.file()).offset(offset)
    }

    /// Reads more bytes. Returns the number of bytes by which the content of the buffer moved
    /// toward the beginning.
    fn fill(&mut self) -> Result<usize> {
        let moved = self.given;
        if moved > 0 {
            self.buffer.copy_within(self.given..self.filled, 0);
            (self.given, self.filled) = (0, self.filled - moved);
        }
        if self.filled == self.buffer.len() {
            let len = self.buffer.len();
            self.buffer.resize(if len < LARGE_BUFFER { 2 * len } else { len + len / 4 }, 0);
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::read::line_range::of_file;
    use std::sync::Arc;
    use tensorferry_sdk::{MemorySource, Source};

    fn blocks(name: &str, bytes: impl Into<Vec<u8>>) -> Blocks {
        let source: Arc<dyn Source> = Arc::new(MemorySource::file(name, bytes.into()));
        let ranges = of_file(&source, name, &Limits::default()).unwrap();
        Blocks::new(&ranges[0], &Limits::default()).unwrap()
    }

    #[test]
    fn blank_lines_cost_no_memory() {
        let blank = " \r\n\n".repeat(24 << 20);
        let text = format!("{blank}{{}}\n{blank}{{}}{blank}  ");
        let bytes = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        let mut blocks = blocks("a.jsonl.zst", bytes);
        let (mut rows, mut pauses) = (Vec::new(), 0);
        while let Some(block) = blocks.next(100, 1 << 20).unwrap() {
            pauses += usize::from(block.rows == 0);
            rows.extend(block.row_lines().map(|row| (row.line, row.offset)));
        }
        let lines = 48 << 20;
        let len = blank.len() as u64;
        assert_eq!(rows, [(lines, len), (2 * lines + 1, 2 * len + 3)]);
        assert_eq!(blocks.lines(), 3 * lines + 2);
        assert!(blocks.buffer.len() <= 4 << 20, "{}", blocks.buffer.len());
        assert_eq!(pauses, 3);
    }

    #[test]
    fn a_long_line_is_held_once() {
        let line = format!("{{\"a\": \"{}\"}}", "x".repeat(40 << 20));
        let mut blocks = blocks("a.jsonl", line.clone());
        assert_eq!(blocks.next(100, 1 << 20).unwrap().unwrap().text.len(), line.len());
        assert!(blocks.buffer.len() <= line.len() / 4 * 5 + READ, "{}", blocks.buffer.len());
    }

    #[test]
    fn rows_are_told_from_blank_lines() {
        for (text, expected) in [
            ("", vec![]),
            ("\n", vec![]),
            (" ", vec![]),
            ("{}", vec![(0, 0, "{}")]),
            ("\n {}\n", vec![(1, 1, " {}\n")]),
            ("\u{feff}\n{}\n\t\n\n  {}  \n \n ", vec![(1, 4, "{}\n"), (4, 10, "  {}  \n")]),
        ] {
            let mut blocks = blocks("a.jsonl", text);
            let mut rows = Vec::new();
            while let Some(block) = blocks.next(100, 100).unwrap() {
                let found: Vec<_> = block
                    .row_lines()
                    .map(|row| (row.line, row.offset, String::from_utf8(row.text.to_vec()).unwrap()))
                    .collect();
                assert_eq!(found.len(), block.rows);
                rows.extend(found);
            }
            let rows: Vec<_> = rows.iter().map(|(line, offset, text)| (*line, *offset, &**text)).collect();
            assert_eq!(rows, expected, "{text:?}");
        }
    }
}
