//! Streams rows in batches.

use super::SchemaOrigin;
use super::column::ColumnBuilder;
use super::rows::Rows;
use crate::kind::Kind;
use std::sync::Arc;
use tensorferry_row_text::ColumnLosses;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{DataType, SchemaRef};
use tensorferry_sdk::records::{BatchStream, ScanRequest, batches};
use tensorferry_sdk::{Error, ErrorKind, Result};

/// Maximum bytes of a batch. The offsets of a string column have 31 bits.
const MAX_BATCH_BYTES: u64 = 1 << 30;

/// The columns of a set, and how to read their values.
pub(super) struct Columns {
    pub(super) schema: SchemaRef,
    /// Field index of each column.
    pub(super) places: Vec<usize>,
    pub(super) nulls: Vec<String>,
    pub(super) origin: SchemaOrigin,
    /// Guessed kinds of the columns, if `origin` is a guess.
    pub(super) guessed: Vec<Kind>,
    pub(super) losses: ColumnLosses,
}

/// Streams the requested columns and rows of a run.
pub(super) fn open(mut rows: Rows, set: &Arc<Columns>, scan: &ScanRequest) -> Result<BatchStream> {
    let all = || (0..set.schema.fields().len()).collect();
    let wanted: Vec<usize> = scan.batches().columns.unwrap_or_else(all);
    let schema = Arc::new(set.schema.project(&wanted).map_err(|error| Error::plugin(error.to_string()))?);
    rows.skip_header()?;
    let columns = wanted.iter().zip(schema.fields());
    let is_other = |index: &usize| !wanted.contains(index) && set.guessed[*index] != Kind::Text;
    let mut stream = Stream {
        rows,
        columns: columns.map(|(index, field)| (*index, ColumnBuilder::new(field))).collect(),
        has_texts: schema.fields().iter().any(|field| *field.data_type() == DataType::Utf8),
        schema: schema.clone(),
        unconfirmed: (0..set.guessed.len()).filter(is_other).collect(),
        set: set.clone(),
        lines: Vec::new(),
        skip: scan.first_row,
        left: scan.limit.unwrap_or(u64::MAX),
        most_rows: scan.rows.max(1),
        most_bytes: scan.bytes.clamp(1, MAX_BATCH_BYTES),
    };
    let next = move || {
        stream.batch().map_err(|error| match (stream.set.origin, error.kind()) {
            // The full scan finds the correct line of the error.
            (SchemaOrigin::Guess, ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) => {
                Error::wrong_guess(error.to_string())
            }
            _ => error.file(stream.rows.file().text.name()),
        })
    };
    Ok(batches(schema, next))
}

struct Stream {
    rows: Rows,
    schema: SchemaRef,
    /// The requested columns, and their indexes in the set.
    columns: Vec<(usize, ColumnBuilder)>,
    /// Indexes of the columns that are not requested, but whose guessed types must be confirmed.
    unconfirmed: Vec<usize>,
    set: Arc<Columns>,
    /// Whether any requested column has strings.
    has_texts: bool,
    /// Line number and offset of each row.
    lines: Vec<(u64, u64)>,
    /// Number of rows to skip before the first requested row, and number of requested rows that
    /// remain.
    skip: u64,
    left: u64,
    most_rows: usize,
    most_bytes: u64,
}

impl Stream {
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.skip > 0 && self.left > 0 {
            if !self.rows.advance()? {
                return Ok(None);
            }
            self.skip -= 1;
        }
        self.lines.clear();
        let mut bytes = 0;
        while self.lines.len() < self.most_rows && bytes < self.most_bytes && self.left > 0 {
            if !self.rows.advance()? {
                break;
            }
            if self.lines.is_empty() {
                self.columns.iter_mut().for_each(|(_, column)| column.reserve());
            }
            bytes += self.push_row()?;
            let (offset, line, _) = self.rows.place();
            self.lines.push((line, offset));
            self.left -= 1;
        }
        if self.lines.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (_, column) in &mut self.columns {
            let array = column.finish(self.set.origin, &self.set.losses);
            columns.push(array.map_err(|(row, error)| {
                let (line, offset) = self.lines.get(row).copied().unwrap_or_default();
                error.context(format!("line {line}")).offset(offset).column(column.field().name())
            })?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.lines.len()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        batch.map(Some).map_err(|error| Error::plugin(error.to_string()))
    }

    /// Appends the current row to the columns. Returns the number of bytes of the values.
    fn push_row(&mut self) -> Result<u64> {
        let (rows, set) = (&self.rows, &*self.set);
        // Each value needs an offset or a number.
        let mut bytes = 8 * self.columns.len() as u64;
        let contradicts = |index: usize, raw| {
            set.guessed.get(index).is_some_and(|kind| *kind != Kind::Text && !kind.admits(Kind::of(raw)))
        };
        let contradiction =
            || rows.at(Error::malformed("a value contradicts the guessed type of its column"));
        let row = if self.has_texts { rows.as_text() } else { None };
        for (index, column) in &mut self.columns {
            let field = rows.field(set.places[*index]);
            let raw = field.raw();
            // Only string and binary columns can have empty values. Elsewhere, an empty field is a
            // null.
            if field.is_null(&set.nulls) || raw.is_empty() && !column.may_be_empty() {
                if !column.field().is_nullable() {
                    let error = Error::malformed("a null in a required column");
                    return Err(rows.at(error.column(column.field().name())));
                }
                column.push_null();
                continue;
            }
            if !field.has_doubled() && column.push_common(&field) {
                continue;
            }
            if contradicts(*index, raw) {
                return Err(contradiction());
            }
            let text = rows.text(&field, row).map_err(|error| error.column(column.field().name()))?;
            column.push_text(&text);
            bytes += text.len() as u64;
        }
        for index in &self.unconfirmed {
            let field = rows.field(set.places[*index]);
            if !field.is_null(&set.nulls) && contradicts(*index, field.raw()) {
                return Err(contradiction());
            }
        }
        Ok(bytes)
    }
}
