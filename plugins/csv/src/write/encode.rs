//! Encodes rows as lines.

use crate::dialect::Dialect;
use crate::kind::Kind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_row_text::json::{self, NonFinite};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::records::value_text::ValueTexts;
use tensorferry_sdk::{Error, Loss, LossKind, Result, Severity};

pub(super) struct Encoder {
    columns: Vec<Column>,
    dialect: Dialect,
    null: String,
    /// Flags for a schema with a single column: whether any row so far contained a null
    /// (`has_null`), or a date that is read back as text (`has_far_date`). Pieces are encoded
    /// separately, so they share these flags.
    has_null: AtomicBool,
    has_far_date: AtomicBool,
}

struct Column {
    place: usize,
    field: FieldRef,
    form: ColumnForm,
    /// Type that values are cast to before they are written.
    plain: Option<DataType>,
}

/// Text form of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnForm {
    Text,
    /// Numbers and booleans, which are read back with the same type.
    Shown,
    /// Dates and timestamps. A value whose year has more than four digits is written with a sign,
    /// and read back as text.
    Date,
    /// Times of day, durations and intervals, which are read back as text.
    Time,
    Base64,
    Json,
}

impl Encoder {
    /// Creates an encoder for rows of this schema. Also returns the losses.
    pub(super) fn new(schema: &Schema, dialect: Dialect, null: &str) -> Result<(Self, Vec<Loss>)> {
        let (mut columns, mut losses) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        for (place, field) in schema.fields().iter().enumerate() {
            if !names.insert(field.name()) {
                return Err(Error::unsupported("two columns have the same name")
                    .column(field.name())
                    .hint("rename one of them"));
            }
            let before = losses.len();
            match Column::new(place, field, &mut losses) {
                Some(column) => columns.push(column),
                None => {
                    // The column is not written, so drop its other losses.
                    losses.truncate(before);
                    let why = format!("neither CSV nor JSON can represent {}", type_text(field.data_type()));
                    losses.push(Loss::new(LossKind::Record, field.name(), why));
                }
            }
        }
        if columns.is_empty() {
            return Err(Error::unsupported("CSV cannot store any of the columns"));
        }
        let (has_null, has_far_date) = Default::default();
        Ok((Self { columns, dialect, null: null.to_owned(), has_null, has_far_date }, losses))
    }

    /// Returns the line that contains the column names.
    pub(super) fn header(&self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        for (number, column) in self.columns.iter().enumerate() {
            if number > 0 {
                line.push(self.dialect.delimiter);
            }
            self.put(column.field.name(), "", &mut line)?;
        }
        line.push(b'\n');
        Ok(line)
    }

    /// Returns the lines for the rows in `batches`, and the losses that encoding the values caused.
    pub(super) fn encode(&self, batches: &[RecordBatch]) -> Result<(Vec<u8>, Vec<Loss>)> {
        let mut text = Vec::new();
        let mut kinds = vec![Kind::None; self.columns.len()];
        let mut losses = Vec::new();
        let mut has_far_date = vec![false; self.columns.len()];
        let (mut has_empty_row, mut has_value) = (false, false);
        let mut cell = String::new();
        for batch in batches {
            let mut arrays = Vec::with_capacity(self.columns.len());
            for column in &self.columns {
                let array = batch.columns().get(column.place);
                let array = array.ok_or_else(|| Error::plugin("a batch does not match the schema"))?;
                arrays.push(column.plain_of(array)?);
            }
            let mut values = Vec::with_capacity(self.columns.len());
            for (column, array) in self.columns.iter().zip(&arrays) {
                values.push(column.values(array)?);
                if column.form == ColumnForm::Json && json::repeats_keys(array) {
                    losses.push(json::repeated_keys(column.field.name()));
                }
            }
            for row in 0..batch.num_rows() {
                let columns = self.columns.iter().zip(&arrays).zip(&mut values).zip(&mut kinds);
                for (number, (((column, array), values), kind)) in columns.enumerate() {
                    if number > 0 {
                        text.push(self.dialect.delimiter);
                    }
                    if array.is_null(row) || *array.data_type() == DataType::Null {
                        // Some readers do not treat an empty line as a row.
                        if self.columns.len() == 1 && self.null.is_empty() {
                            has_empty_row = true;
                            text.extend_from_slice(self.empty_row()?);
                        } else {
                            text.extend_from_slice(self.null.as_bytes());
                        }
                        continue;
                    }
                    cell.clear();
                    let value =
                        values.of(row, &mut cell).map_err(|error| error.column(column.field.name()))?;
                    has_far_date[number] |= column.form == ColumnForm::Date && value.starts_with(['+', '-']);
                    // In a column of numbers, booleans or dates, a quoted empty string is read as a
                    // null.
                    has_value |= matches!(column.form, ColumnForm::Shown | ColumnForm::Date);
                    if column.form == ColumnForm::Text && *kind != Kind::Text {
                        *kind = kind.and(Kind::of(value.as_bytes()));
                    }
                    self.put(value, &self.null, &mut text)
                        .map_err(|error| error.column(column.field.name()))?;
                }
                text.push(b'\n');
            }
        }
        let far = self.columns.iter().zip(&has_far_date).filter(|(_, is_far)| **is_far);
        losses.extend(far.map(|(column, _)| {
            let why = "years of more than four digits are read as text unless -i schema=FILE sets their type";
            changed(column.field.name(), why)
        }));
        losses.extend(self.losses(&kinds, self.loses_nulls(has_empty_row, has_value, has_far_date[0])));
        Ok((text, losses))
    }

    /// Returns whether nulls in a schema with a single column are read back as empty strings. Such
    /// nulls are written as quoted empty strings.
    fn loses_nulls(&self, has_null: bool, has_value: bool, has_far_date: bool) -> bool {
        let seen = |flag: &AtomicBool, now: bool| flag.fetch_or(now, Ordering::SeqCst) || now;
        let (any_null, any_far) = (seen(&self.has_null, has_null), seen(&self.has_far_date, has_far_date));
        has_null && !has_value || any_null && any_far
    }

    fn losses(&self, kinds: &[Kind], has_lost_null: bool) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (column, kind) in self.columns.iter().zip(kinds) {
            if !matches!(kind, Kind::None | Kind::Empty | Kind::Text) {
                let as_what = type_text(&kind.data_type());
                let why = format!(
                    "all texts look like {as_what}, so they are read as such unless -i schema=FILE sets utf8"
                );
                losses.push(changed(column.field.name(), why));
            }
            if has_lost_null {
                let why =
                    "a null in the only column becomes an empty text, because some readers skip empty lines";
                // Verification must skip this value, because it is read back as a different value.
                let loss = Loss::new(LossKind::Record, column.field.name(), why);
                losses.push(loss.severity(Severity::Changed));
            }
        }
        losses
    }

    /// Returns a row with a single null.
    fn empty_row(&self) -> Result<&'static [u8]> {
        match self.dialect.quote {
            Some(b'"') => Ok(b"\"\""),
            Some(b'\'') => Ok(b"''"),
            _ => Err(Error::unsupported("a null in the only column needs a word").hint("pass -o nulls=WORD")),
        }
    }

    /// Appends a value to `text`. Quotes the value if it would otherwise be read differently.
    fn put(&self, value: &str, null: &str, text: &mut Vec<u8>) -> Result<()> {
        let Dialect { delimiter, quote } = self.dialect;
        let bytes = value.as_bytes();
        let is_special =
            |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r') || quote == Some(*byte);
        let takes_quotes = bytes.is_empty() || value == null || bytes.iter().any(is_special)
            // Without quotes, a byte order mark at the start of the file would be dropped.
            || value.starts_with('\u{feff}');
        match quote {
            _ if !takes_quotes => text.extend_from_slice(bytes),
            None => {
                return Err(Error::unsupported("a value needs quotes, but they are disabled")
                    .found(format!("{value:.40?}")));
            }
            Some(quote) => {
                text.push(quote);
                for byte in bytes {
                    text.push(*byte);
                    if *byte == quote {
                        text.push(quote);
                    }
                }
                text.push(quote);
            }
        }
        Ok(())
    }
}

impl Column {
    fn new(place: usize, field: &FieldRef, losses: &mut Vec<Loss>) -> Option<Self> {
        let plain = match field.data_type() {
            DataType::Dictionary(_, values) => Some(values.as_ref().clone()),
            DataType::RunEndEncoded(_, values) => Some(values.data_type().clone()),
            // The Arrow library does not support named time zones. In UTC, the values are the same
            // points in time.
            DataType::Timestamp(unit, Some(_)) => Some(DataType::Timestamp(*unit, Some("+00:00".into()))),
            _ => None,
        };
        let data_type = plain.as_ref().unwrap_or_else(|| field.data_type());
        let mut lose = |why: &str| losses.push(changed(field.name(), why));
        if let DataType::Timestamp(_, Some(zone)) = field.data_type()
            && !matches!(&**zone, "UTC" | "Etc/UTC" | "+00:00")
        {
            lose(&format!("times are written and read in UTC unless -i schema=FILE sets the zone {zone}"));
        }
        let form = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnForm::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => {
                lose(
                    "CSV has no bytes, so they are written as base64 and read as text unless -i schema=FILE sets binary",
                );
                ColumnForm::Base64
            }
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => {
                lose("decimals are read as other numbers unless -i schema=FILE sets their type");
                ColumnForm::Shown
            }
            DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) | DataType::Interval(_) => {
                lose("times of day and durations are read as text unless -i schema=FILE sets their type");
                ColumnForm::Time
            }
            nested if nested.is_nested() => {
                lose("CSV has no lists, structs or maps, so they are written as JSON and read as text");
                ColumnForm::Json
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => ColumnForm::Date,
            _ => ColumnForm::Shown,
        };
        let column = Self { place, field: field.clone(), form, plain };
        (form != ColumnForm::Json || json::is_json_representable(&column.plain_field())).then_some(column)
    }

    fn plain_field(&self) -> FieldRef {
        match &self.plain {
            Some(plain) => Field::new(self.field.name(), plain.clone(), true).into(),
            None => self.field.clone(),
        }
    }

    fn plain_of(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let plain = self.plain.as_ref().map(|plain| arrow_cast::cast(array, plain)).transpose();
        Ok(plain.map_err(|error| refused(&error))?.unwrap_or_else(|| array.clone()))
    }

    fn values<'a>(&self, array: &'a ArrayRef) -> Result<Values<'a>> {
        Ok(match self.form {
            ColumnForm::Text => Values::Text(array),
            ColumnForm::Base64 => Values::Base64(array),
            ColumnForm::Shown | ColumnForm::Date | ColumnForm::Time => {
                Values::Shown(ValueTexts::new(array.as_ref()).map_err(|error| refused(&error))?)
            }
            ColumnForm::Json => {
                let texts = json::texts(&self.plain_field(), array.as_ref(), NonFinite::Quoted)?;
                let text = |text| String::from_utf8(text).map_err(|_| Error::plugin("JSON is not UTF-8"));
                Values::Json(texts.into_iter().map(text).collect::<Result<_>>()?)
            }
        })
    }
}

enum Values<'a> {
    Text(&'a ArrayRef),
    Base64(&'a ArrayRef),
    Shown(ValueTexts<'a>),
    Json(Vec<String>),
}

impl Values<'_> {
    fn of<'b>(&'b self, row: usize, cell: &'b mut String) -> Result<&'b str> {
        match self {
            Self::Text(array) => {
                return Ok(match array.data_type() {
                    DataType::Utf8 => array.as_string::<i32>().value(row),
                    DataType::LargeUtf8 => array.as_string::<i64>().value(row),
                    _ => array.as_string_view().value(row),
                });
            }
            Self::Json(texts) => return Ok(&texts[row]),
            Self::Base64(array) => {
                let bytes = match array.data_type() {
                    DataType::Binary => array.as_binary::<i32>().value(row),
                    DataType::LargeBinary => array.as_binary::<i64>().value(row),
                    DataType::BinaryView => array.as_binary_view().value(row),
                    _ => array.as_fixed_size_binary().value(row),
                };
                STANDARD.encode_string(bytes, cell);
            }
            Self::Shown(shown) => {
                shown.write(row, cell).map_err(|error| refused(&error))?;
            }
        }
        Ok(cell)
    }
}

fn refused(error: &ArrowError) -> Error {
    Error::unsupported(error.to_string()).context("CSV cannot represent these rows")
}

/// Returns the loss for a column whose values are written with a different type.
fn changed(column: impl Into<String>, why: impl Into<String>) -> Loss {
    Loss::new(LossKind::Metadata, column, why).severity(Severity::Changed)
}
