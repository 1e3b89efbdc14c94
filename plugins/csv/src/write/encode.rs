//! Encodes rows as lines.

use crate::dialect::Dialect;
use crate::kind::Kind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_row_text::MIN_BLOCK_BYTES;
use tensorferry_row_text::json::{self, NonFinite};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::records::value_text::{ValueTexts, any_byte};
use tensorferry_sdk::{ByteSink, Error, Loss, LossKind, Result, Severity};

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
    /// Whether the values are numbers, times or base64, whose texts consist of [`is_plain`]
    /// characters.
    is_plain: bool,
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
        let mut line = String::new();
        for (number, column) in self.columns.iter().enumerate() {
            if number > 0 {
                line.push(self.dialect.delimiter.into());
            }
            self.put(column.field.name(), "", &mut line)?;
        }
        line.push('\n');
        Ok(line.into_bytes())
    }

    /// Appends the lines for the rows in `batches` to `text`. Returns the losses that encoding the
    /// values caused. If `blocks` is set, it receives the text in blocks, except for the last block.
    pub(super) fn encode(
        &self,
        batches: &[RecordBatch],
        text: &mut String,
        mut blocks: Option<&mut dyn ByteSink>,
    ) -> Result<Vec<Loss>> {
        let mut kinds = vec![Kind::None; self.columns.len()];
        let mut losses = Vec::new();
        let mut has_far_date = vec![false; self.columns.len()];
        let (mut has_empty_row, mut has_value) = (false, false);
        let Dialect { delimiter, quote } = self.dialect;
        let is_plain_dialect = !is_plain(delimiter) && !quote.is_some_and(is_plain);
        for batch in batches {
            let mut arrays = Vec::with_capacity(self.columns.len());
            for column in &self.columns {
                let array = batch.columns().get(column.place);
                let array = array.ok_or_else(|| Error::plugin("a batch does not match the schema"))?;
                arrays.push(column.plain_of(array)?);
            }
            let mut cells = Vec::with_capacity(self.columns.len());
            for (column, array) in self.columns.iter().zip(&arrays) {
                let is_plain = is_plain_dialect && column.is_plain;
                let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
                cells.push((nulls, column.values(array)?, column.form, is_plain));
                if column.form == ColumnForm::Json && json::repeats_keys(array) {
                    losses.push(json::repeated_keys(column.field.name()));
                }
            }
            for row in 0..batch.num_rows() {
                for (number, (nulls, values, form, is_plain)) in cells.iter().enumerate() {
                    if number > 0 {
                        text.push(delimiter.into());
                    }
                    if matches!(values, Values::Null) || nulls.is_some_and(|nulls| nulls.is_null(row)) {
                        // Some readers do not treat an empty line as a row.
                        if self.columns.len() == 1 && self.null.is_empty() {
                            has_empty_row = true;
                            text.push_str(self.empty_row()?);
                        } else {
                            text.push_str(&self.null);
                        }
                        continue;
                    }
                    let written = if let Some(value) = values.text(row) {
                        if *form == ColumnForm::Text && kinds[number] != Kind::Text {
                            kinds[number] = kinds[number].and(Kind::of(value.as_bytes()));
                        }
                        self.put(value, &self.null, text)
                    } else {
                        let start = text.len();
                        values.write(row, text).and_then(|()| {
                            let value = &text.as_bytes()[start..];
                            has_far_date[number] |=
                                *form == ColumnForm::Date && matches!(value, [b'+' | b'-', ..]);
                            // In a column of numbers, booleans or dates, a quoted empty string is read
                            // as a null.
                            has_value |= matches!(form, ColumnForm::Shown | ColumnForm::Date);
                            if *is_plain && !value.is_empty() && value != self.null.as_bytes() {
                                return Ok(());
                            }
                            let value = text.split_off(start);
                            self.put(&value, &self.null, text)
                        })
                    };
                    written.map_err(|error| error.column(self.columns[number].field.name()))?;
                }
                text.push('\n');
                if text.len() >= MIN_BLOCK_BYTES
                    && let Some(blocks) = &mut blocks
                {
                    blocks.write(text.as_bytes())?;
                    text.clear();
                }
            }
        }
        let far = self.columns.iter().zip(&has_far_date).filter(|(_, is_far)| **is_far);
        losses.extend(far.map(|(column, _)| {
            let why = "years of more than four digits are read as text unless -i schema=FILE sets their type";
            changed(column.field.name(), why)
        }));
        losses.extend(self.losses(&kinds, self.loses_nulls(has_empty_row, has_value, has_far_date[0])));
        Ok(losses)
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
    fn empty_row(&self) -> Result<&'static str> {
        match self.dialect.quote {
            Some(b'"') => Ok("\"\""),
            Some(b'\'') => Ok("''"),
            _ => Err(Error::unsupported("a null in the only column needs a word").hint("pass -o nulls=WORD")),
        }
    }

    /// Appends a value to `text`. Quotes the value if it would otherwise be read differently.
    fn put(&self, value: &str, null: &str, text: &mut String) -> Result<()> {
        let takes_quotes = value.is_empty() || value == null || self.has_special(value.as_bytes())
            // Without quotes, a byte order mark at the start of the file would be dropped.
            || value.starts_with('\u{feff}');
        if !takes_quotes {
            text.push_str(value);
            return Ok(());
        }
        let Some(quote) = self.dialect.quote.map(char::from) else {
            return Err(Error::unsupported("a value needs quotes, but they are disabled")
                .found(format!("{value:.40?}")));
        };
        text.push(quote);
        for (number, part) in value.split(quote).enumerate() {
            if number > 0 {
                text.extend([quote, quote]);
            }
            text.push_str(part);
        }
        text.push(quote);
        Ok(())
    }

    /// Returns whether a value contains a delimiter, a quote or a line end.
    fn has_special(&self, value: &[u8]) -> bool {
        let Dialect { delimiter, quote } = self.dialect;
        let quote = quote.unwrap_or(delimiter);
        any_byte(value, |byte| (byte == delimiter) | (byte == quote) | (byte == b'\n') | (byte == b'\r'))
    }
}

/// Returns whether a byte can occur in the text of a number, boolean, time or base64 value.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'+' | b'-' | b'.' | b':' | b'/' | b'=')
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
        let is_plain =
            form == ColumnForm::Base64 || data_type.is_primitive() || *data_type == DataType::Boolean;
        let column = Self { place, field: field.clone(), form, plain, is_plain };
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
        Ok(match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::LargeUtf8 => Values::LargeText(array.as_string()),
            DataType::Utf8View => Values::TextView(array.as_string_view()),
            _ if self.form == ColumnForm::Base64 => Values::Base64(array),
            _ if self.form == ColumnForm::Json => {
                let texts = json::texts(&self.plain_field(), array.as_ref(), NonFinite::Quoted)?;
                let text = |text| String::from_utf8(text).map_err(|_| Error::plugin("JSON is not UTF-8"));
                Values::Json(texts.into_iter().map(text).collect::<Result<_>>()?)
            }
            _ => Values::Shown(ValueTexts::new(array.as_ref()).map_err(|error| refused(&error))?),
        })
    }
}

enum Values<'a> {
    Null,
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Json(Vec<String>),
    Base64(&'a ArrayRef),
    Shown(ValueTexts<'a>),
}

impl Values<'_> {
    /// Returns a value that exists as text, or `None` if it must be written first.
    fn text(&self, row: usize) -> Option<&str> {
        match self {
            Self::Text(array) => Some(array.value(row)),
            Self::LargeText(array) => Some(array.value(row)),
            Self::TextView(array) => Some(array.value(row)),
            Self::Json(texts) => Some(&texts[row]),
            Self::Null | Self::Base64(_) | Self::Shown(_) => None,
        }
    }

    /// Appends a value that does not exist as text.
    fn write(&self, row: usize, text: &mut String) -> Result<()> {
        match self {
            Self::Base64(array) => {
                let bytes = match array.data_type() {
                    DataType::Binary => array.as_binary::<i32>().value(row),
                    DataType::LargeBinary => array.as_binary::<i64>().value(row),
                    DataType::BinaryView => array.as_binary_view().value(row),
                    _ => array.as_fixed_size_binary().value(row),
                };
                STANDARD.encode_string(bytes, text);
                Ok(())
            }
            Self::Shown(shown) => shown.write(row, text).map_err(|error| refused(&error)),
            Self::Null | Self::Text(_) | Self::LargeText(_) | Self::TextView(_) | Self::Json(_) => Ok(()),
        }
    }
}

fn refused(error: &ArrowError) -> Error {
    Error::unsupported(error.to_string()).context("CSV cannot represent these rows")
}

/// Returns the loss for a column whose values are written with a different type.
fn changed(column: impl Into<String>, why: impl Into<String>) -> Loss {
    Loss::new(LossKind::Metadata, column, why).severity(Severity::Changed)
}
