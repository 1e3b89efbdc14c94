//! A range of whole lines of one file. A file is divided into ranges of similar length, so that
//! several threads can read it. A newline byte always ends a line, because JSON strings cannot
//! contain it.

use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_row_text::TextFile;
use tensorferry_sdk::records::Split;
use tensorferry_sdk::{Error, Limits, Result, Source};

/// Size of a range in bytes. The size keeps the overhead per range low, and still yields enough
/// ranges for several threads.
const RANGE_BYTES: u64 = 16 << 20;
/// Number of bytes to read at a time when searching for the end of a line.
const SEARCH: usize = 64 << 10;

/// Bytes of memory per byte of a line during decoding.
pub(super) const MEMORY_OF_A_BYTE: u64 = 3;

/// Consecutive whole lines of a file.
#[derive(Clone)]
pub(super) struct LineRange {
    text: TextFile,
    pub(super) start: u64,
    end: u64,
    /// Number of the range's first line in the file, starting from 0, or `None` if it is not known.
    pub(super) first_line: Option<u64>,
    /// Number of rows, if known.
    pub(super) rows: Option<u64>,
}

/// Divides a file into ranges. An empty file becomes one range, because each file needs a split. A
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

    /// Returns the stored length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.end - self.start
    }

    pub(super) fn split(&self) -> Split {
        Split { file: self.file().to_owned(), offset: self.start, bytes: self.len(), records: self.rows }
    }

    /// Returns a reader for the decompressed bytes. Reading fails if the number of bytes exceeds
    /// the limits.
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

    /// Converts a read error from the source or the decompressor.
    pub(super) fn failed(&self, error: io::Error) -> Error {
        self.text.failed(error)
    }
}
