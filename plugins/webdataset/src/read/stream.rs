//! Reads the samples in a part of a tar as a stream of batches.

use crate::input::Input;
use crate::tar::{self, Entry, Member};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_sdk::arrow_array::builder::{BinaryBuilder, Int64Builder, StringBuilder};
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{DataType, FieldRef, SchemaRef};
use tensorferry_sdk::records::{BatchStream, ScanRequest, batches};
use tensorferry_sdk::{Error, Limits, Result};

/// Maximum size of one column in a batch, in bytes. Arrow offsets have only 31 bits for a position.
const MAX_COLUMN_BYTES: u64 = 1 << 30;
/// Number of bytes counted for each row and column, even if the row does not have the member. The
/// arrays of a batch also need time and memory. With thousands of columns, this cost would
/// otherwise dominate batches that contain few bytes. The value is half the size of an offset.
const ROW_OVERHEAD: u64 = 2;

/// Returns the requested samples as a stream of batches.
pub(super) fn open(
    input: Input,
    schema: &SchemaRef,
    scan: &ScanRequest,
    zeros: Arc<[AtomicBool]>,
    limits: &Limits,
) -> Result<BatchStream> {
    let all = || (0..schema.fields().len()).collect();
    let wanted: Vec<usize> = scan.batches().columns.unwrap_or_else(all);
    let schema = Arc::new(schema.project(&wanted).map_err(|error| Error::plugin(error.to_string()))?);
    // The first column of the schema is the key.
    let key = wanted.iter().position(|column| *column == 0);
    let of = |field: &FieldRef| Column::new(field.data_type());
    let columns: Vec<Column> = schema.fields().iter().map(of).collect();
    let places =
        schema.fields().iter().enumerate().map(|(place, field)| (field.name().clone(), place)).collect();
    let mut stream = Stream {
        input,
        schema: schema.clone(),
        columns,
        wanted,
        zeros,
        key,
        places,
        next: None,
        skip: scan.first_row,
        left: scan.limit.unwrap_or(u64::MAX),
        rows: scan.rows.max(1),
        bytes: scan.bytes.clamp(1, MAX_COLUMN_BYTES),
        limits: limits.clone(),
    };
    let next = move || stream.batch().map_err(|error| error.file(stream.input.file_name()));
    Ok(batches(schema, next))
}

enum Column {
    Text(StringBuilder),
    Number(Int64Builder),
    Bytes(BinaryBuilder),
}

impl Column {
    /// Returns an empty column without reserving rows, because the dataset may have many sparse
    /// columns.
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Utf8 => Self::Text(StringBuilder::with_capacity(0, 0)),
            DataType::Int64 => Self::Number(Int64Builder::with_capacity(0)),
            _ => Self::Bytes(BinaryBuilder::with_capacity(0, 0)),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let text = || {
            std::str::from_utf8(bytes).map_err(|_| {
                Error::malformed("the text is not UTF-8").hint("pass -i members=bytes to read it as bytes")
            })
        };
        let held = match self {
            Self::Text(builder) => builder.values_slice().len(),
            Self::Number(_) => 0,
            Self::Bytes(builder) => builder.values_slice().len(),
        };
        if i32::try_from(held.saturating_add(bytes.len())).is_err() {
            return Err(Error::limit("a value is 2 GiB or larger").found(bytes.len()));
        }
        match self {
            Self::Text(builder) => builder.append_value(text()?),
            Self::Number(builder) => {
                let text = text()?.trim();
                let wrong = || {
                    Error::malformed("the value is not an integer")
                        .hint("pass -i members=bytes to read it as bytes")
                        .found(format!("{text:.40?}"))
                };
                builder.append_value(text.parse().map_err(|_| wrong())?);
            }
            Self::Bytes(builder) => builder.append_value(bytes),
        }
        Ok(())
    }

    /// Appends a null to the column, unless it already has a value for the last row.
    fn fill(&mut self, rows: usize) {
        use tensorferry_sdk::arrow_array::builder::ArrayBuilder;
        match self {
            Self::Text(builder) if builder.len() < rows => builder.append_null(),
            Self::Number(builder) if builder.len() < rows => builder.append_null(),
            Self::Bytes(builder) if builder.len() < rows => builder.append_null(),
            _ => {}
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Number(builder) => Arc::new(builder.finish()),
            Self::Bytes(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Returns whether a number has leading zeros.
fn has_zeros(number: &[u8]) -> bool {
    let digits = number.trim_ascii();
    let digits = digits.strip_prefix(b"-").or(digits.strip_prefix(b"+")).unwrap_or(digits);
    digits.len() > 1 && digits[0] == b'0'
}

struct Stream {
    input: Input,
    schema: SchemaRef,
    columns: Vec<Column>,
    /// The indices of the requested columns. `zeros` contains a flag for each column of the schema,
    /// which is set if a number with leading zeros was read.
    wanted: Vec<usize>,
    zeros: Arc<[AtomicBool]>,
    /// The position of the key column, if it is requested. `places` maps the names of all requested
    /// columns to their positions.
    key: Option<usize>,
    places: HashMap<String, usize>,
    next: Option<Member>,
    /// The number of samples to skip. `left` is the number of samples to return after the skipped
    /// samples.
    skip: u64,
    left: u64,
    rows: usize,
    bytes: u64,
    limits: Limits,
}

impl Stream {
    /// Returns the next member that is part of a sample.
    fn member(&mut self) -> Result<Option<Member>> {
        if let Some(member) = self.next.take() {
            return Ok(Some(member));
        }
        while let Some(entry) = tar::next(&mut self.input, &self.limits)? {
            let Entry::File(member) = entry else { continue };
            if tar::split(&member.path).is_some() {
                return Ok(Some(member));
            }
            self.input.skip(member.size)?;
            self.input.skip(tar::padding(member.size))?;
        }
        Ok(None)
    }

    /// Reads a sample into a row, or skips it if `row` is `None`. Returns the size of the sample in
    /// bytes, or `None` after the last sample.
    fn sample(&mut self, row: Option<usize>) -> Result<Option<u64>> {
        let Some(first) = self.member()? else { return Ok(None) };
        let Some((key, _)) = tar::split(&first.path) else { return Ok(None) };
        let key = key.to_owned();
        if let (Some(_), Some(place)) = (row, self.key) {
            self.columns[place].push(key.as_bytes())?;
        }
        let (mut next, mut bytes) = (Some(first), key.len() as u64);
        let max = self.limits.header_bytes;
        while let Some(member) = next {
            let ending = match tar::split(&member.path) {
                Some((of, ending)) if of == key => ending,
                _ => {
                    self.next = Some(member);
                    break;
                }
            };
            match self.places.get(&ending).filter(|_| row.is_some()) {
                Some(&place) => {
                    bytes = bytes.saturating_add(member.size);
                    if bytes > max {
                        let error = Error::limit(format!("sample {key:?} is too long to hold in memory"));
                        let expected = format!("at most {max} bytes of members");
                        let error = error.file(self.input.file_name()).column(&ending).offset(member.offset);
                        return Err(error
                            .hint("raise the limit with --limit header_bytes=N")
                            .expected(expected)
                            .found(format!("{bytes} with this member of {} bytes", member.size)));
                    }
                    let (found, column) = (self.input.take(member.size)?, &mut self.columns[place]);
                    column.push(found).map_err(|error| error.column(&ending).offset(member.offset))?;
                    if matches!(column, Column::Number(_)) && has_zeros(found) {
                        self.zeros[self.wanted[place]].store(true, Ordering::Relaxed);
                    }
                }
                None => self.input.skip(member.size)?,
            }
            self.input.skip(tar::padding(member.size))?;
            next = self.member()?;
        }
        if let Some(row) = row {
            self.columns.iter_mut().for_each(|column| column.fill(row + 1));
        }
        Ok(Some(bytes + ROW_OVERHEAD * self.columns.len() as u64))
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.skip > 0 && self.left > 0 {
            self.skip -= 1;
            if self.sample(None)?.is_none() {
                return Ok(None);
            }
        }
        let (mut rows, mut bytes) = (0, 0);
        while rows < self.rows && bytes < self.bytes && self.left > 0 {
            match self.sample(Some(rows))? {
                None => break,
                Some(more) => (rows, bytes, self.left) = (rows + 1, bytes + more, self.left - 1),
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        batch.map(Some).map_err(|error| Error::malformed(error.to_string()))
    }
}
