//! The rows of a part of a file, one after the other: only one is in memory, and what was read ahead.

use super::fault::ragged;
use crate::dialect::{self, Dialect, Field, Found};
use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;
use tensorferry_row_text::TextFile;
use tensorferry_sdk::records::Split;
use tensorferry_sdk::{Error, Limits, Result};

/// Bytes of the first reads; a row that is longer doubles the buffer.
const READ: usize = 256 << 10;
/// What each byte of a row takes: in the buffer, in its column, and in the column of its type.
const MEMORY_OF_A_BYTE: u64 = 3;
/// What each field of a row takes beside its text.
const MEMORY_OF_A_FIELD: u64 = 64;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file of rows, and what it is told apart by.
pub(super) struct DataFile {
    pub(super) text: TextFile,
    pub(super) dialect: Dialect,
    pub(super) has_header: bool,
}

/// A run of whole rows of a file.
#[derive(Clone)]
pub(super) struct Run {
    file: Arc<DataFile>,
    start: u64,
    end: u64,
    /// The number of its first line, as editors have it.
    line: u64,
    pub(super) rows: Option<u64>,
}

impl Run {
    /// All of a file, with its header.
    pub(super) fn whole(file: Arc<DataFile>) -> Self {
        let end = file.text.len();
        Self { file, start: 0, end, line: 1, rows: None }
    }

    pub(super) fn file(&self) -> &DataFile {
        &self.file
    }

    /// A part of it, which begins with this line.
    pub(super) fn part(&self, start: u64, end: u64, line: u64, rows: u64) -> Self {
        Self { file: self.file.clone(), start, end, line, rows: Some(rows) }
    }

    /// The same, to another end.
    pub(super) fn until(&self, end: u64) -> Self {
        Self { end, ..self.clone() }
    }

    /// As the host knows it.
    pub(super) fn split(&self) -> Split {
        let file = self.file.text.name().to_owned();
        Split { file, offset: self.start, bytes: self.end - self.start, records: self.rows }
    }
}

/// Goes through the rows of a run.
pub(super) struct Rows {
    file: Arc<DataFile>,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The row, and what of the buffer is filled.
    begin: usize,
    end: usize,
    filled: usize,
    is_at_end: bool,
    fields: Vec<Field>,
    /// Where the row begins in the file, once decompressed, and in which line.
    offset: u64,
    line: u64,
    /// Lines of the row.
    lines: u64,
    is_first: bool,
    most: u64,
    /// How many fields each row has, where that is known already, and how many it may have.
    count: Option<usize>,
    columns: usize,
}

impl Rows {
    /// The rows of a run, its header among them. `count`: how many fields each has, where that is known already.
    pub(super) fn new(run: &Run, count: Option<usize>, limits: &Limits) -> Result<Self> {
        Ok(Self {
            file: run.file.clone(),
            input: run.file.text.bytes(run.start, run.end, limits)?,
            buffer: vec![0; READ],
            begin: 0,
            end: 0,
            filled: 0,
            is_at_end: false,
            fields: Vec::new(),
            offset: run.start,
            line: run.line,
            lines: 0,
            is_first: run.start == 0,
            most: limits.header_bytes,
            count,
            columns: usize::try_from(limits.columns).unwrap_or(usize::MAX),
        })
    }

    /// Goes past the header, where the run begins with one, and past empty lines before it.
    pub(super) fn skip_header(&mut self) -> Result<()> {
        if self.is_first && self.file.has_header {
            self.advance_to(false)?;
        }
        Ok(())
    }

    /// Goes to the next row; whether there is one. An empty line is a row where there is one column, and otherwise none.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.advance_to(self.count == Some(1))
    }

    fn advance_to(&mut self, takes_empty: bool) -> Result<bool> {
        if self.is_first {
            self.skip_mark()?;
        }
        loop {
            self.offset += (self.end - self.begin) as u64;
            self.line += self.lines;
            (self.begin, self.lines) = (self.end, 0);
            let len = loop {
                let text = &self.buffer[self.begin..self.filled];
                if text.is_empty() && self.is_at_end {
                    return Ok(false);
                }
                let dialect = self.file.dialect;
                match dialect::row(text, self.is_at_end, dialect, self.columns, &mut self.fields) {
                    Found::Row(len) => break len,
                    Found::Cut => self.fill()?,
                    Found::TooMany => return Err(self.too_many()),
                    Found::BehindQuote(place) => {
                        let found =
                            String::from_utf8_lossy(&text[place..text.len().min(place + 10)]).into_owned();
                        let error = Error::malformed("a field goes on behind its closing quote")
                            .expected("the delimiter or the end of the line")
                            .found(format!("{found:?}"));
                        return Err(self.at(error).offset(self.offset + place as u64));
                    }
                    Found::Unended(place) => {
                        let error = Error::malformed("a field in quotes that never ends");
                        return Err(self.at(error).offset(self.offset + place as u64));
                    }
                }
            };
            self.end = self.begin + len;
            let row = &self.buffer[self.begin..self.end];
            self.lines = dialect::lines(row);
            let memory = len as u64 * MEMORY_OF_A_BYTE + self.fields.len() as u64 * MEMORY_OF_A_FIELD;
            if memory > self.most {
                return Err(self.too_long());
            }
            let is_empty = matches!(&*self.fields, [only] if !only.is_quoted && only.text.is_empty());
            if is_empty && !takes_empty {
                continue;
            }
            return match self.count {
                Some(count) if count != self.fields.len() => Err(self.at(ragged(count, self.fields.len()))),
                _ => Ok(true),
            };
        }
    }

    /// The fields of the row.
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// A field's bytes, whose quotes may be doubled.
    pub(super) fn raw(&self, field: usize) -> &[u8] {
        let row = &self.buffer[self.begin..self.end];
        self.fields.get(field).map_or(&[][..], |field| &row[field.text.clone()])
    }

    /// A field's text.
    pub(super) fn text(&self, field: usize) -> Result<Cow<'_, str>> {
        let text = std::str::from_utf8(self.raw(field)).map_err(|error| {
            self.at(Error::malformed("a text that is not UTF-8")
                .found(format!("a wrong byte after {}", error.valid_up_to())))
        })?;
        Ok(match (self.file.dialect.quote, self.fields.get(field)) {
            (Some(quote), Some(field)) if field.has_doubled => {
                let quote = char::from(quote);
                Cow::Owned(
                    text.replace(&[quote, quote].iter().collect::<String>(), quote.encode_utf8(&mut [0; 4])),
                )
            }
            _ => Cow::Borrowed(text),
        })
    }

    /// Whether a field is a null: it has no quotes, and is empty or one of these words.
    pub(super) fn is_null(&self, field: usize, nulls: &[String]) -> bool {
        let raw = self.raw(field);
        let is_quoted = self.fields.get(field).is_some_and(|field| field.is_quoted);
        !is_quoted && (raw.is_empty() || nulls.iter().any(|null| null.as_bytes() == raw))
    }

    /// Where the row lies: its offset, its line, its length.
    pub(super) fn place(&self) -> (u64, u64, u64) {
        (self.offset, self.line, (self.end - self.begin) as u64)
    }

    pub(super) fn file(&self) -> &DataFile {
        &self.file
    }

    /// The number of the line behind the row.
    pub(super) fn next_line(&self) -> u64 {
        self.line + self.lines
    }

    /// An error with the row's place.
    pub(super) fn at(&self, error: Error) -> Error {
        error.context(format!("line {}", self.line)).file(self.file.text.name()).offset(self.offset)
    }

    fn too_many(&self) -> Error {
        let found = format!("more than {}", self.columns);
        let error = match self.count {
            Some(count) => ragged(count, found),
            None => {
                let expected = format!("at most {}, or --bound columns=N", self.columns);
                Error::limit("too many columns").expected(expected).found(found)
            }
        };
        self.at(error)
    }

    fn too_long(&self) -> Error {
        let error = Error::limit("a row is too long to hold in memory (--bound header_bytes=N allows more)");
        self.at(error.expected(format!("one that takes at most {} bytes", self.most)))
    }

    fn skip_mark(&mut self) -> Result<()> {
        self.is_first = false;
        while self.filled < BYTE_ORDER_MARK.len() && !self.is_at_end {
            self.fill()?;
        }
        let text = &self.buffer[..self.filled];
        if text.starts_with(BYTE_ORDER_MARK) {
            (self.begin, self.end) = (BYTE_ORDER_MARK.len(), BYTE_ORDER_MARK.len());
            self.offset += BYTE_ORDER_MARK.len() as u64;
        } else if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
            let error = Error::unsupported("UTF-16: write it as UTF-8 first");
            return Err(error.file(self.file.text.name()).offset(0));
        }
        Ok(())
    }

    /// Reads on.
    fn fill(&mut self) -> Result<()> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.filled, 0);
            (self.begin, self.end, self.filled) = (0, self.end - self.begin, self.filled - self.begin);
        }
        if self.filled == self.buffer.len() {
            if self.filled as u64 > self.most / MEMORY_OF_A_BYTE {
                return Err(self.too_long());
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        // All of it: what is looked at again behind each short read of a decoder is a long row from its beginning.
        while self.filled < self.buffer.len() && !self.is_at_end {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.file.text.failed(error).offset(self.offset)),
                Ok(len) => (self.filled, self.is_at_end) = (self.filled + len, len == 0),
            }
        }
        Ok(())
    }
}
