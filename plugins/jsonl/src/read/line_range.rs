//! A range of whole lines of one file. Ranges are about even in length, so that threads can share a file: a
//! newline in JSON text is always the end of a line.

use crate::codec::{self, Codec};
use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_sdk::records::Split;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Bytes of a range: enough that one costs little, few enough that small files are shared out.
const RANGE_BYTES: u64 = 16 << 20;
/// Bytes that are read in search of a line's end.
const SEARCH: usize = 64 << 10;

/// What each byte of a line takes when it is decoded.
pub(super) const MEMORY_OF_A_BYTE: u64 = 3;
/// What a byte may become whatever the limits are: deflate makes at most 1032 of one, and of text far less.
const MOST_EXPANSION: u64 = 1000;

/// A run of whole lines.
#[derive(Clone)]
pub(super) struct LineRange {
    source: Arc<dyn Source>,
    file: FileId,
    codec: Codec,
    pub(super) start: u64,
    end: u64,
    /// The number of its first line in the file, from 0, where that is known.
    pub(super) first_line: Option<u64>,
    /// Its rows, where that is known.
    pub(super) rows: Option<u64>,
}

/// Cuts a file into ranges, an empty one into one as well: each file has a place among the splits. A
/// compressed one is one.
///
/// # Errors
/// I/o; over a limit, for a line that is too long to hold in memory.
pub(super) fn of_file(source: &Arc<dyn Source>, name: &str, limits: &Limits) -> Result<Vec<LineRange>> {
    let file = source.open(name)?;
    let codec = codec::of_file(source.as_ref(), name)?;
    let len = source.len(file);
    let range = |start: u64, end| LineRange {
        source: source.clone(),
        file,
        codec,
        start,
        end,
        first_line: (start == 0).then_some(0),
        rows: None,
    };
    if codec != Codec::Plain || len == 0 {
        return Ok(vec![range(0, len)]);
    }
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < len {
        let aim = start.saturating_add(RANGE_BYTES);
        let end = if aim < len { after_newline(source.as_ref(), file, aim - 1, limits)? } else { len };
        ranges.push(range(start, end));
        start = end;
    }
    Ok(ranges)
}

/// The place after the first newline at or behind `from`.
fn after_newline(source: &dyn Source, file: FileId, from: u64, limits: &Limits) -> Result<u64> {
    let len = source.len(file);
    let mut buffer = vec![0; SEARCH];
    let mut at = from;
    while at < len {
        let part = usize::try_from(len - at).unwrap_or(SEARCH).min(SEARCH);
        source.read_at(file, at, &mut buffer[..part])?;
        if let Some(place) = memchr::memchr(b'\n', &buffer[..part]) {
            return Ok(at + place as u64 + 1);
        }
        at += part as u64;
        if at - from > limits.header_bytes / MEMORY_OF_A_BYTE {
            return Err(too_long(limits.header_bytes).file(source.name(file)).offset(from));
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
        self.source.name(self.file)
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
    ///
    /// # Errors
    /// I/o.
    pub(super) fn bytes(&self, limits: &Limits) -> Result<Box<dyn Read + Send>> {
        let input =
            SourceRead { source: self.source.clone(), file: self.file, at: self.start, end: self.end };
        let bytes = codec::decompressed(self.codec, input).map_err(|error| self.failed(error))?;
        if self.codec == Codec::Plain {
            return Ok(bytes);
        }
        let most =
            (self.end - self.start).saturating_mul(MOST_EXPANSION).saturating_add(limits.expanded_bytes);
        Ok(Box::new(Bounded { bytes, most, left: most }))
    }

    /// How many lines the file has before this range, counted if need be: for messages.
    pub(super) fn lines_before(&self) -> Option<u64> {
        if self.first_line.is_some() {
            return self.first_line;
        }
        let mut input = SourceRead { source: self.source.clone(), file: self.file, at: 0, end: self.start };
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
        let kind = error.kind();
        let error = match error.downcast::<Error>() {
            Ok(own) => own,
            Err(codec) if self.codec == Codec::Plain => Error::from(codec),
            Err(_) if kind == io::ErrorKind::UnexpectedEof => {
                Error::malformed("the compressed file is cut off")
            }
            Err(codec) => Error::malformed(format!("the compressed file makes no sense: {codec}")),
        };
        error.file(self.file())
    }
}

/// Reads a range of a file.
struct SourceRead {
    source: Arc<dyn Source>,
    file: FileId,
    at: u64,
    end: u64,
}

impl Read for SourceRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let len = left.min(buffer.len());
        self.source.read_at(self.file, self.at, &mut buffer[..len]).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// Ends a bomb.
struct Bounded<R> {
    bytes: R,
    most: u64,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.read(buffer)?;
        self.left = self.left.checked_sub(len as u64).ok_or_else(|| {
            let error =
                Error::limit("the compressed file holds too much (--bound expanded_bytes=N allows more)");
            io::Error::other(error.expected(format!("at most {} bytes", self.most)))
        })?;
        Ok(len)
    }
}
