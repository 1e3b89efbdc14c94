//! Iterates over the rows in a part of a file. Only one row and the read-ahead buffer are in
//! memory.

use super::fault::wrong_field_count;
use crate::dialect::{self, Dialect, Field, RowStart};
use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;
use tensorferry_row_text::TextFile;
use tensorferry_sdk::records::Split;
use tensorferry_sdk::{Error, Limits, Result};

/// Initial size of the buffer in bytes. The size doubles if a row does not fit.
const READ: usize = 256 << 10;
/// Bytes of memory per byte of a row: one each in the buffer, in the string column and in the typed
/// column.
const MEMORY_OF_A_BYTE: u64 = 3;
/// Bytes of memory per field of a row, in addition to the memory for the field's bytes.
const MEMORY_OF_A_FIELD: u64 = 64;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file that contains rows, and the dialect of the file.
pub(super) struct DataFile {
    pub(super) text: TextFile,
    pub(super) dialect: Dialect,
    pub(super) has_header: bool,
}

/// Consecutive whole rows of a file.
#[derive(Clone)]
pub(super) struct Run {
    file: Arc<DataFile>,
    start: u64,
    end: u64,
    /// Line number of the run's first line, starting from 1.
    line: u64,
    pub(super) rows: Option<u64>,
}

impl Run {
    /// Returns the run of a whole file, including its header.
    pub(super) fn whole(file: Arc<DataFile>) -> Self {
        let end = file.text.len();
        Self { file, start: 0, end, line: 1, rows: None }
    }

    pub(super) fn file(&self) -> &DataFile {
        &self.file
    }

    /// Returns the part of the run from byte `start` to byte `end`. The part begins at line `line`
    /// of the file.
    pub(super) fn part(&self, start: u64, end: u64, line: u64, rows: u64) -> Self {
        Self { file: self.file.clone(), start, end, line, rows: Some(rows) }
    }

    /// Returns a run with a different start and the same end. Its line number is not known.
    pub(super) fn from(&self, start: u64) -> Self {
        Self { start, ..self.clone() }
    }

    /// Returns a run with the same start and a different end.
    pub(super) fn until(&self, end: u64) -> Self {
        Self { end, ..self.clone() }
    }

    pub(super) fn split(&self) -> Split {
        let file = self.file.text.name().to_owned();
        Split { file, offset: self.start, bytes: self.end - self.start, records: self.rows }
    }
}

/// Cursor over the rows of a run.
pub(super) struct Rows {
    file: Arc<DataFile>,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Range of the current row in the buffer, and number of bytes in the buffer.
    begin: usize,
    end: usize,
    filled: usize,
    is_at_end: bool,
    fields: Vec<Field>,
    /// Offset and line number of the current row in the decompressed file.
    offset: u64,
    line: u64,
    /// Number of lines that the current row spans.
    lines: u64,
    is_first: bool,
    max: u64,
    /// Expected number of fields per row, if it is known, and maximum number of fields.
    count: Option<usize>,
    columns: usize,
}

/// A field of the current row.
pub(super) struct FieldText<'a> {
    row: &'a [u8],
    field: Field,
}

impl<'a> FieldText<'a> {
    /// Returns the field's bytes as they are in the file. They may contain doubled quotes.
    pub(super) fn raw(&self) -> &'a [u8] {
        &self.row[self.field.text.clone()]
    }

    /// Returns bytes that end with the field's bytes, and the index of the field in them.
    pub(super) fn in_context(&self) -> (&'a [u8], usize) {
        (&self.row[..self.field.text.end], self.field.text.start)
    }

    pub(super) fn has_doubled(&self) -> bool {
        self.field.has_doubled
    }

    /// Returns whether the field is null. A null has no quotes, and is empty or one of the words in
    /// `nulls`.
    pub(super) fn is_null(&self, nulls: &[String]) -> bool {
        let raw = self.raw();
        !self.field.is_quoted && (raw.is_empty() || nulls.iter().any(|null| null.as_bytes() == raw))
    }
}

impl Rows {
    /// Opens a cursor over the rows of a run, including its header. `count` is the expected number
    /// of fields per row, if it is known.
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
            max: limits.header_bytes,
            count,
            columns: usize::try_from(limits.columns).unwrap_or(usize::MAX),
        })
    }

    /// If the run begins with a header, skips the header and the empty lines before it.
    pub(super) fn skip_header(&mut self) -> Result<()> {
        if self.is_first && self.file.has_header {
            self.advance_to(false)?;
        }
        Ok(())
    }

    /// Moves to the next row, and returns whether that row exists. In a file with a single column,
    /// an empty line is a row. In other files, empty lines are skipped.
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
            let (len, has_line_ends) = loop {
                let text = &self.buffer[self.begin..self.filled];
                if text.is_empty() && self.is_at_end {
                    return Ok(false);
                }
                let dialect = self.file.dialect;
                match dialect::row(text, self.is_at_end, dialect, self.columns, &mut self.fields) {
                    RowStart::Row { len, has_line_ends } => break (len, has_line_ends),
                    RowStart::Cut => self.fill()?,
                    RowStart::TooMany => return Err(self.too_many()),
                    RowStart::AfterQuote(place) => {
                        let found =
                            String::from_utf8_lossy(&text[place..text.len().min(place + 10)]).into_owned();
                        let error = Error::malformed("text after the closing quote of a field")
                            .expected("the delimiter or the end of the line")
                            .found(format!("{found:?}"));
                        return Err(self.at(error).offset(self.offset + place as u64));
                    }
                    RowStart::Unterminated(place) => {
                        let error = Error::malformed("a quoted field never ends");
                        return Err(self.at(error).offset(self.offset + place as u64));
                    }
                }
            };
            self.end = self.begin + len;
            self.lines = if has_line_ends { dialect::lines(self.row()) } else { 1 };
            let memory = len as u64 * MEMORY_OF_A_BYTE + self.fields.len() as u64 * MEMORY_OF_A_FIELD;
            if memory > self.max {
                return Err(self.too_long());
            }
            let is_empty = matches!(&*self.fields, [only] if !only.is_quoted && only.text.is_empty());
            if is_empty && !takes_empty {
                continue;
            }
            return match self.count {
                Some(count) if count != self.fields.len() => {
                    Err(self.at(wrong_field_count(count, self.fields.len())))
                }
                _ => Ok(true),
            };
        }
    }

    /// Returns the number of fields in the row.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns the row as a string, or `None` if any byte is not UTF-8.
    pub(super) fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(self.row()).ok()
    }

    /// Returns a field of the row.
    pub(super) fn field(&self, place: usize) -> FieldText<'_> {
        let missing = Field { text: 0..0, is_quoted: false, has_doubled: false };
        FieldText { row: self.row(), field: self.fields.get(place).cloned().unwrap_or(missing) }
    }

    /// Returns a field's value as a string. `row` is the row as a string, if that is known.
    pub(super) fn text<'a>(&'a self, field: &FieldText<'a>, row: Option<&'a str>) -> Result<Cow<'a, str>> {
        let text = match row.and_then(|row| row.get(field.field.text.clone())) {
            Some(text) => text,
            None => std::str::from_utf8(field.raw()).map_err(|error| {
                self.at(Error::malformed("a field is not UTF-8")
                    .found(format!("an invalid byte at {}", error.valid_up_to())))
            })?,
        };
        Ok(match self.file.dialect.quote {
            Some(quote) if field.has_doubled() => {
                let quote = char::from(quote);
                Cow::Owned(
                    text.replace(&[quote, quote].iter().collect::<String>(), quote.encode_utf8(&mut [0; 4])),
                )
            }
            _ => Cow::Borrowed(text),
        })
    }

    /// Returns the offset, line and length of the row.
    pub(super) fn place(&self) -> (u64, u64, u64) {
        (self.offset, self.line, (self.end - self.begin) as u64)
    }

    pub(super) fn file(&self) -> &DataFile {
        &self.file
    }

    /// Returns whether the row spans several lines.
    pub(super) fn has_line_ends(&self) -> bool {
        self.lines > 1
    }

    /// Returns the number of the line after the row.
    pub(super) fn next_line(&self) -> u64 {
        self.line + self.lines
    }

    /// Adds the row's file, line and offset to an error.
    pub(super) fn at(&self, error: Error) -> Error {
        error.context(format!("line {}", self.line)).file(self.file.text.name()).offset(self.offset)
    }

    fn too_many(&self) -> Error {
        let found = format!("more than {}", self.columns);
        let error = match self.count {
            Some(count) => wrong_field_count(count, found),
            None => {
                let expected = format!("at most {}", self.columns);
                Error::limit("too many columns")
                    .hint("pass --limit columns=N to allow more")
                    .expected(expected)
                    .found(found)
            }
        };
        self.at(error)
    }

    fn too_long(&self) -> Error {
        let error = Error::limit("a row is too long to hold in memory")
            .hint("pass --limit header_bytes=N to allow more");
        self.at(error.expected(format!("at most {} bytes in memory", self.max)))
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
            let error = Error::unsupported("the file is UTF-16").hint("convert it to UTF-8 first");
            return Err(error.file(self.file.text.name()).offset(0));
        }
        Ok(())
    }

    fn row(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Reads more text into the buffer.
    fn fill(&mut self) -> Result<()> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.filled, 0);
            (self.begin, self.end, self.filled) = (0, self.end - self.begin, self.filled - self.begin);
        }
        if self.filled == self.buffer.len() {
            if self.filled as u64 > self.max / MEMORY_OF_A_BYTE {
                return Err(self.too_long());
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        // Fill the whole buffer. Otherwise, a long row would be parsed from its beginning again
        // after every short read.
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
