//! Encodes rows as lines.

use crate::dialect::Dialect;
use crate::kind::Kind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_row_text::json::{self, NonNumbers};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::records::value_text::ValueTexts;
use tensorferry_sdk::{Error, Loss, LossKind, Result, Severity};

/// How rows become lines.
pub(super) struct Encoder {
    columns: Vec<Column>,
    dialect: Dialect,
    null: String,
    /// Whether the only column has had a null so far, and a date that is read back as text. Pieces are encoded separately.
    has_null: AtomicBool,
    has_far_date: AtomicBool,
}

/// A column that is written.
struct Column {
    place: usize,
    field: FieldRef,
    form: Form,
    /// What its values are cast to first.
    plain: Option<DataType>,
}

/// What becomes of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// Numbers and booleans, which are read back as such.
    Shown,
    /// Dates and timestamps. A year with more than four digits is written with a sign and read back as text.
    Date,
    /// Times of a day, durations and intervals, which are read back as text.
    Time,
    Base64,
    Json,
}

impl Encoder {
    /// For rows of a schema, and what is lost of them.
    pub(super) fn new(schema: &Schema, dialect: Dialect, null: &str) -> Result<(Self, Vec<Loss>)> {
        let (mut columns, mut losses) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        for (place, field) in schema.fields().iter().enumerate() {
            if !names.insert(field.name()) {
                return Err(Error::unsupported("two columns of one name: rename one").column(field.name()));
            }
            let before = losses.len();
            match Column::new(place, field, &mut losses) {
                Some(column) => columns.push(column),
                None => {
                    // Not written at all.
                    losses.truncate(before);
                    let why = format!("neither CSV nor JSON can say {}", type_text(field.data_type()));
                    losses.push(Loss::new(LossKind::Record, field.name(), why));
                }
            }
        }
        if columns.is_empty() {
            return Err(Error::unsupported("no column that CSV can have: a row is never empty"));
        }
        let (has_null, has_far_date) = Default::default();
        Ok((Self { columns, dialect, null: null.to_owned(), has_null, has_far_date }, losses))
    }

    /// The line of names.
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

    /// The lines of some rows, and what their values lost.
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
                let array = array.ok_or_else(|| Error::plugin("rows of another schema"))?;
                arrays.push(column.plain_of(array)?);
            }
            let mut values = Vec::with_capacity(self.columns.len());
            for (column, array) in self.columns.iter().zip(&arrays) {
                values.push(column.values(array)?);
                if column.form == Form::Json && json::repeats_keys(array) {
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
                        // An empty line would be no row.
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
                    has_far_date[number] |= column.form == Form::Date && value.starts_with(['+', '-']);
                    // An empty text among numbers is a null.
                    has_value |= matches!(column.form, Form::Shown | Form::Date);
                    if column.form == Form::Text && *kind != Kind::Text {
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
            let why = "years of more than four digits are read as text unless -i schema=FILE says their type";
            changed(column.field.name(), why)
        }));
        losses.extend(self.losses(&kinds, self.loses_nulls(has_empty_row, has_value, has_far_date[0])));
        Ok((text, losses))
    }

    /// Whether the nulls of the only column, written as empty text, are read back as empty text.
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
                let why =
                    format!("texts that are all {as_what}, and are read so unless -i schema=FILE says utf8");
                losses.push(changed(column.field.name(), why));
            }
            if has_lost_null {
                let why =
                    "a null in the only column is written as an empty text: an empty line would be no row";
                // The value itself is read as another one, and cannot be verified.
                let loss = Loss::new(LossKind::Record, column.field.name(), why);
                losses.push(loss.severity(Severity::Changed));
            }
        }
        losses
    }

    /// A row of one null.
    fn empty_row(&self) -> Result<&'static [u8]> {
        match self.dialect.quote {
            Some(b'"') => Ok(b"\"\""),
            Some(b'\'') => Ok(b"''"),
            _ => Err(Error::unsupported("a null in the only column: -o nulls=WORD says what stands for it")),
        }
    }

    /// Appends a value, in quotes where it would be read as something else without.
    fn put(&self, value: &str, null: &str, text: &mut Vec<u8>) -> Result<()> {
        let Dialect { delimiter, quote } = self.dialect;
        let bytes = value.as_bytes();
        let is_special =
            |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r') || quote == Some(*byte);
        let takes_quotes = bytes.is_empty() || value == null || bytes.iter().any(is_special)
            // What begins a file as its mark.
            || value.starts_with('\u{feff}');
        match quote {
            _ if !takes_quotes => text.extend_from_slice(bytes),
            None => {
                return Err(Error::unsupported("a value that takes quotes, of which there are none")
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
            // The library knows no zone by its name; these are the same moments.
            DataType::Timestamp(unit, Some(_)) => Some(DataType::Timestamp(*unit, Some("+00:00".into()))),
            _ => None,
        };
        let data_type = plain.as_ref().unwrap_or_else(|| field.data_type());
        let mut lose = |why: &str| losses.push(changed(field.name(), why));
        if let DataType::Timestamp(_, Some(zone)) = field.data_type()
            && !matches!(&**zone, "UTC" | "Etc/UTC" | "+00:00")
        {
            lose(&format!(
                "times are written in UTC, and read so unless -i schema=FILE says their zone, {zone}"
            ));
        }
        let form = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Form::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => {
                lose(
                    "CSV has no bytes: they are written as base64, and read as text unless -i schema=FILE says binary",
                );
                Form::Base64
            }
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => {
                lose("decimals are read as other numbers unless -i schema=FILE says their type");
                Form::Shown
            }
            DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) | DataType::Interval(_) => {
                lose("times of a day and durations are read as text unless -i schema=FILE says their type");
                Form::Time
            }
            nested if nested.is_nested() => {
                lose("CSV has no lists, structs and maps: they are written as JSON, and read as its text");
                Form::Json
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Form::Date,
            _ => Form::Shown,
        };
        let column = Self { place, field: field.clone(), form, plain };
        (form != Form::Json || json::can_say(&column.plain_field())).then_some(column)
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
            Form::Text => Values::Text(array),
            Form::Base64 => Values::Base64(array),
            Form::Shown | Form::Date | Form::Time => {
                Values::Shown(ValueTexts::new(array.as_ref()).map_err(|error| refused(&error))?)
            }
            Form::Json => {
                let texts = json::texts(&self.plain_field(), array.as_ref(), NonNumbers::Quoted)?;
                let text = |text| String::from_utf8(text).map_err(|_| Error::plugin("JSON that is no text"));
                Values::Json(texts.into_iter().map(text).collect::<Result<_>>()?)
            }
        })
    }
}

/// The values of a column in some rows.
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
    Error::unsupported(error.to_string()).context("CSV cannot say these rows")
}

/// The values are there, and no longer say what they are.
fn changed(column: impl Into<String>, why: impl Into<String>) -> Loss {
    Loss::new(LossKind::Metadata, column, why).severity(Severity::Changed)
}
