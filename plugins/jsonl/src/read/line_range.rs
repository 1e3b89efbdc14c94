//! A range of whole lines of one file. Ranges are about even in length, so that threads can share a file: a
//! newline in JSON text is always the end of a line.

use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_row_text::TextFile;
use tensorferry_sdk::records::Split;
use tensorferry_sdk::{Error, Limits, Result, Source};

/// Bytes of a range: enough that one costs little, few enough that small files are shared out.
const RANGE_BYTES: u64 = 16 << 20;
/// Bytes that are read in search of a line's end.
const SEARCH: usize = 64 << 10;

/// What each byte of a line takes when it is decoded.
pub(super) const MEMORY_OF_A_BYTE: u64 = 3;

/// A run of whole lines.
#[derive(Clone)]
pub(super) struct LineRange {
    text: TextFile,
    pub(super) start: u64,
    end: u64,
    /// The number of its first line in the file, from 0, where that is known.
    pub(super) first_line: Option<u64>,
    /// Its rows, where that is known.
    pub(super) rows: Option<u64>,
}

/// Cuts a file into ranges, an empty one into one as well: each file has a place among the splits. A
/// compressed one is one.
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

/// The place after the first newline at or behind `from`.
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

/// The error for a line that takes more memory than this.
pub(super) fn too_long(most: u64) -> Error {
    Error::limit("a line is too long to be decoded in memory (--bound header_bytes=N allows more)")
        .expected(format!("one that takes at most {most} bytes"))
}

impl LineRange {
    /// The file's name.
    pub(super) fn file(&self) -> &str {
        self.text.name()
    }

    /// As the host knows it.
    pub(super) fn split(&self) -> Split {
        Split {
            file: self.file().to_owned(),
            offset: self.start,
            bytes: self.end - self.start,
            records: self.rows,
        }
    }

    /// Its bytes, decompressed; more than the limits allow are an error of the reader.
    pub(super) fn bytes(&self, limits: &Limits) -> Result<Box<dyn Read + Send>> {
        self.text.bytes(self.start, self.end, limits)
    }

    /// How many lines the file has before this range, counted if need be: for messages.
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

    /// What an error while the lines were read means: the source's own, or a codec's.
    pub(super) fn failed(&self, error: io::Error) -> Error {
        self.text.failed(error)
    }
}
