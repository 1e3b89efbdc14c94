//! A range of whole lines of one file. Ranges have similar lengths, so that threads can share the
//! work for a file. In JSON lines, a newline byte always ends a line.

use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_row_text::TextFile;
use tensorferry_sdk::records::Split;
use tensorferry_sdk::{Error, Limits, Result, Source};

/// Size of a range. It keeps the overhead small, but divides a file into enough ranges to share
/// among threads.
const RANGE_BYTES: u64 = 16 << 20;
/// Number of bytes that are read at once to find the end of a line.
const SEARCH: usize = 64 << 10;

/// Memory per byte of a line, while the line is decoded.
pub(super) const MEMORY_OF_A_BYTE: u64 = 3;

/// A run of whole lines.
#[derive(Clone)]
pub(super) struct LineRange {
    text: TextFile,
    pub(super) start: u64,
    end: u64,
    /// Number in the file of the range's first line, starting from 0. `None` if it is not known.
    pub(super) first_line: Option<u64>,
    /// Number of rows, if known.
    pub(super) rows: Option<u64>,
}

/// Divides a file into ranges. An empty file is one range, since each file needs a split. A
/// compressed file is also one range.
pub(super) fn of_file(source: &Arc<dyn Source>, name: &str, limits: &Limits) -> Result<Vec<LineRange>> {
    let text = TextFile::open(source, name)?;
    let len = text.len();
    let range = |start: u64, end| LineRange {
        text: text.clone(),
        start,
        end,
        first_line: (start == 0).then_some(0),
        rows: None,
    };
    if !text.is_plain() || len == 0 {
        return Ok(vec![range(0, len)]);
    }
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < len {
        let aim = start.saturating_add(RANGE_BYTES);
        let end = if aim < len { after_newline(&text, aim - 1, limits)? } else { len };
        ranges.push(range(start, end));
        start = end;
    }
    Ok(ranges)
}

/// Returns the offset after the first newline at or after `from`.
fn after_newline(text: &TextFile, from: u64, limits: &Limits) -> Result<u64> {
    let len = text.len();
    let mut buffer = vec![0; SEARCH];
    let mut at = from;
    while at < len {
        let part = usize::try_from(len - at).unwrap_or(SEARCH).min(SEARCH);
        text.read_at(at, &mut buffer[..part])?;
        if let Some(place) = memchr::memchr(b'\n', &buffer[..part]) {
            return Ok(at + place as u64 + 1);
        }
        at += part as u64;
        if at - from > limits.header_bytes / MEMORY_OF_A_BYTE {
            return Err(too_long(limits.header_bytes).file(text.name()).offset(from));
        }
    }
    Ok(len)
}

/// Returns the error for a line that needs more than `max` bytes of memory.
pub(super) fn too_long(max: u64) -> Error {
    Error::limit("a line is too long to decode in memory")
        .hint("pass --limit header_bytes=N to allow more")
        .expected(format!("at most {max} bytes in memory"))
}

impl LineRange {
    pub(super) fn file(&self) -> &str {
        self.text.name()
    }

    pub(super) fn split(&self) -> Split {
        Split {
            file: self.file().to_owned(),
            offset: self.start,
            bytes: self.end - self.start,
            records: self.rows,
        }
    }

    /// Returns a reader for the decompressed bytes. It fails if the bytes exceed the limits.
    pub(super) fn bytes(&self, limits: &Limits) -> Result<Box<dyn Read + Send>> {
        self.text.bytes(self.start, self.end, limits)
    }

    /// Returns the number of lines before this range, for error messages. Counts them if necessary.
    pub(super) fn lines_before(&self) -> Option<u64> {
        if self.first_line.is_some() {
            return self.first_line;
        }
        let mut input = self.text.stored(0, self.start);
        let (mut lines, mut buffer) = (0, vec![0; SEARCH]);
        loop {
            match input.read(&mut buffer).ok()? {
                0 => return Some(lines),
                len => lines += memchr::memchr_iter(b'\n', &buffer[..len]).count() as u64,
            }
        }
    }

    /// Converts a read error, which comes from the source or from a decompressor.
    pub(super) fn failed(&self, error: io::Error) -> Error {
        self.text.failed(error)
    }
}
