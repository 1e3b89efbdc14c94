//! Streams rows in batches. The values of a column are read as strings and then cast to its type.

use super::fault::{HINT, shown};
use super::rows::Rows;
use crate::kind::Kind;
use arrow_cast::CastOptions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use tensorferry_row_text::{ColumnLosses, exact};
use tensorferry_sdk::arrow_array::builder::{BinaryBuilder, StringBuilder};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::Float64Type;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, NullArray, RecordBatch, RecordBatchOptions, StringArray,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use tensorferry_sdk::records::{BatchStream, ScanRequest, batches, type_text};
use tensorferry_sdk::{Error, LossKind, Result};

/// Maximum bytes of a batch. The offsets of a string column have 31 bits.
const MAX_BATCH_BYTES: u64 = 1 << 30;

/// Streams the requested columns and rows of a run. `places` contains the field index of each
/// column.
pub(super) fn open(
    mut rows: Rows,
    schema: &SchemaRef,
    places: &[usize],
    nulls: &[String],
    scan: &ScanRequest,
    losses: Option<ColumnLosses>,
    is_guessed: bool,
) -> Result<BatchStream> {
    let all = || (0..schema.fields().len()).collect();
    let wanted: Vec<usize> = scan.batches().columns.unwrap_or_else(all);
    let schema = Arc::new(schema.project(&wanted).map_err(|error| Error::plugin(error.to_string()))?);
    rows.skip_header()?;
    let mut stream = Stream {
        rows,
        columns: wanted.iter().map(|place| (places[*place], StringBuilder::with_capacity(0, 0))).collect(),
        schema: schema.clone(),
        nulls: nulls.to_vec(),
        losses,
        is_guessed,
        lines: Vec::new(),
        skip: scan.first_row,
        left: scan.limit.unwrap_or(u64::MAX),
        most_rows: scan.rows.max(1),
        most_bytes: scan.bytes.clamp(1, MAX_BATCH_BYTES),
    };
    let next = move || stream.batch().map_err(|error| error.file(stream.rows.file().text.name()));
    Ok(batches(schema, next))
}

struct Stream {
    rows: Rows,
    schema: SchemaRef,
    /// For each column, its field index, and the strings that have been read.
    columns: Vec<(usize, StringBuilder)>,
    nulls: Vec<String>,
    losses: Option<ColumnLosses>,
    /// Whether the types were inferred from only some of the rows. If set, a value of a different
    /// kind is an error instead of being converted.
    is_guessed: bool,
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
            let (offset, line, len) = self.rows.place();
            for ((place, texts), field) in self.columns.iter_mut().zip(self.schema.fields()) {
                let may_be_empty = *field.data_type() == DataType::Utf8 || is_bytes(field.data_type());
                // Only string and binary columns can have empty values. Elsewhere, an empty field
                // is a null.
                if self.rows.is_null(*place, &self.nulls) || !may_be_empty && self.rows.raw(*place).is_empty()
                {
                    if !field.is_nullable() {
                        let error = Error::malformed("a null in a required column");
                        return Err(self.rows.at(error.column(field.name())));
                    }
                    texts.append_null();
                    continue;
                }
                let text = self.rows.text(*place).map_err(|error| error.column(field.name()))?;
                texts.append_value(text);
            }
            self.lines.push((line, offset));
            // In addition to the field's bytes, count the size of an offset or a number.
            bytes += len + 8 * self.columns.len() as u64;
            self.left -= 1;
        }
        if self.lines.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for ((_, texts), field) in self.columns.iter_mut().zip(self.schema.fields()) {
            let texts = texts.finish();
            let cast = cast(texts, field, self.losses.as_ref(), self.is_guessed);
            columns.push(cast.map_err(|(row, error)| {
                let (line, offset) = self.lines.get(row).copied().unwrap_or_default();
                error.context(format!("line {line}")).offset(offset).column(field.name())
            })?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.lines.len()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        batch.map(Some).map_err(|error| Error::plugin(error.to_string()))
    }
}

/// Casts strings to a column's type. If a string cannot be converted, returns the row of the first
/// such string, and an error.
fn cast(
    texts: StringArray,
    field: &Field,
    losses: Option<&ColumnLosses>,
    is_guessed: bool,
) -> Result<ArrayRef, (usize, Error)> {
    let data_type = field.data_type();
    let wrong = |row: usize| {
        let error = Error::malformed("a value does not have the type of its column").hint(HINT);
        (row, error.expected(type_text(data_type)).found(shown(texts.value(row))))
    };
    match data_type {
        DataType::Utf8 => return Ok(Arc::new(texts)),
        DataType::Null => {
            return match (0..texts.len()).find(|row| texts.is_valid(*row)) {
                Some(row) => Err(wrong(row)),
                None => Ok(Arc::new(NullArray::new(texts.len()))),
            };
        }
        bytes if is_bytes(bytes) => return decoded(&texts, bytes).map_err(wrong),
        _ => {}
    }
    let is_of_kind = |row: &usize| Kind::of(texts.value(*row).as_bytes()).fits(data_type);
    if is_guessed && let Some(row) = (0..texts.len()).find(|row| texts.is_valid(*row) && !is_of_kind(row)) {
        return Err(wrong(row));
    }
    let is_held = |row: &usize| {
        let text = texts.value(*row);
        exact::is_exact(text, data_type) && exact::is_instant(text, data_type)
    };
    if (data_type.is_temporal() || data_type.is_decimal())
        && let Some(row) = (0..texts.len()).find(|row| texts.is_valid(*row) && !is_held(row))
    {
        return Err(wrong(row));
    }
    let plain = exact::with_utc_offset(data_type).unwrap_or_else(|| data_type.clone());
    let unsupported = |error: ArrowError| (0, Error::unsupported(error.to_string()));
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let all = arrow_cast::cast_with_options(&texts, &plain, &options).map_err(unsupported)?;
    let all =
        if plain == *data_type { all } else { arrow_cast::cast(&all, data_type).map_err(unsupported)? };
    // The cast replaces invalid values with nulls.
    if all.null_count() != texts.null_count() {
        let row = (0..texts.len()).find(|row| texts.is_valid(*row) && all.is_null(*row));
        return Err(wrong(row.unwrap_or_default()));
    }
    if let (Some(losses), Some(floats)) = (losses, all.as_primitive_opt::<Float64Type>())
        && (0..floats.len()).any(|row| exact::loses_digits(texts.value(row), floats.value(row)))
    {
        losses.add(field.name(), LossKind::Precision, exact::LOST_DIGITS);
    }
    match exact::overflowed(&all, |row| texts.value(row)) {
        Some(row) => Err(wrong(row)),
        None => Ok(all),
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// Decodes base64. If a string is invalid or has the wrong length, returns the row of the first
/// such string.
fn decoded(texts: &StringArray, data_type: &DataType) -> Result<ArrayRef, usize> {
    let mut bytes = BinaryBuilder::new();
    for row in 0..texts.len() {
        let value = texts.is_valid(row).then(|| STANDARD.decode(texts.value(row)));
        let value = value.transpose().map_err(|_| row)?;
        if let (DataType::FixedSizeBinary(len), Some(value)) = (data_type, &value)
            && i32::try_from(value.len()).ok() != Some(*len)
        {
            return Err(row);
        }
        bytes.append_option(value);
    }
    let bytes: ArrayRef = Arc::new(bytes.finish());
    if bytes.data_type() == data_type {
        return Ok(bytes);
    }
    arrow_cast::cast(&bytes, data_type).map_err(|_| 0)
}
