//! Determines the encoding of each column, and encodes the values.

use super::array::{self, ArrayEncoding, numbers_of, parts_of};
use crate::ENCODING;
use crate::encoding::Encoding;
use crate::numbers::Number;
use crate::options::{Nulls, WriteOptions, null_refused};
use std::collections::HashSet;
use tensorferry_row_text::json::{self, NonFinite};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{Array, ArrayRef};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::records::value_text::ValueTexts;
use tensorferry_sdk::{Error, Loss, LossKind, Result, Severity};

#[derive(Debug, Clone)]
pub(super) struct OutColumn {
    pub(super) field: FieldRef,
    /// Index of the column in the input.
    pub(super) place: usize,
    /// Name of the encoding.
    pub(super) word: String,
    kind: ColumnKind,
    /// Type that values are cast to before they are written.
    plain: Option<DataType>,
    is_strict: bool,
}

#[derive(Debug, Clone)]
enum ColumnKind {
    Number(Number),
    Truth,
    /// Strings and bytes, written unchanged.
    Slices,
    /// Decimals and times, written as strings.
    Shown,
    Json,
    Array(ArrayEncoding),
    Parts(ArrayEncoding),
}

/// Encoded values of some rows of a column.
pub(super) enum Encoded {
    Fixed(usize, Vec<u8>),
    Slices(ArrayRef, &'static [u8]),
    Made(Vec<Vec<u8>>),
}

impl Encoded {
    /// Returns the bytes of a row's value.
    pub(super) fn value(&self, row: usize) -> &[u8] {
        match self {
            Self::Fixed(width, bytes) => &bytes[row * width..(row + 1) * width],
            Self::Made(values) => &values[row],
            Self::Slices(array, filler) if array.is_null(row) => filler,
            Self::Slices(array, _) => match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
                DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
                DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
                DataType::Binary => array.as_binary::<i32>().value(row),
                DataType::LargeBinary => array.as_binary::<i64>().value(row),
                DataType::BinaryView => array.as_binary_view().value(row),
                _ => array.as_fixed_size_binary().value(row),
            },
        }
    }
}

/// Returns the columns that can be written, sorted by name, and the losses.
pub(super) fn of_schema(schema: &Schema, options: &WriteOptions) -> Result<(Vec<OutColumn>, Vec<Loss>)> {
    let (mut columns, mut losses) = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for (place, field) in schema.fields().iter().enumerate() {
        if !names.insert(field.name()) {
            return Err(Error::unsupported("two columns have the same name")
                .column(field.name())
                .hint("rename one of them"));
        }
        match OutColumn::new(place, field, options, &mut losses) {
            Some(column) => columns.push(column),
            None => {
                let why = format!("neither MDS nor JSON can represent {}", type_text(field.data_type()));
                losses.push(Loss::new(LossKind::Record, field.name(), why));
            }
        }
    }
    if columns.is_empty() {
        return Err(Error::unsupported("MDS cannot store any of the columns"));
    }
    columns.sort_by(|one, other| one.field.name().cmp(other.field.name()));
    Ok((columns, losses))
}

impl OutColumn {
    fn new(place: usize, field: &FieldRef, options: &WriteOptions, losses: &mut Vec<Loss>) -> Option<Self> {
        let plain = match field.data_type() {
            DataType::Dictionary(_, values) => Some(values.as_ref().clone()),
            DataType::RunEndEncoded(_, values) => Some(values.data_type().clone()),
            DataType::Timestamp(unit, Some(_)) => {
                // The Arrow library does not support named time zones. In UTC, the values are the
                // same points in time.
                Some(DataType::Timestamp(*unit, Some("+00:00".into())))
            }
            _ => None,
        };
        let data_type = plain.as_ref().unwrap_or_else(|| field.data_type());
        let declared = field.metadata().get(ENCODING).map(String::as_str).unwrap_or_default();
        let is_json = options.nulls == Nulls::Json && field.is_nullable();
        let mut lose = |severity, why: String| {
            losses.push(Loss::new(LossKind::Attribute, field.name(), why).severity(severity));
        };
        let array = || {
            let (number, depth, shape) = numbers_of(data_type).filter(|(_, depth, _)| *depth > 0)?;
            let is_array = declared.starts_with("ndarray");
            // Lists inside lists may have different lengths, unless the metadata marks them as
            // arrays.
            let is_regular = depth == 1 || shape.is_some() || is_array;
            let says_number = declared == "ndarray";
            let shape = shape.filter(|_| !is_array || declared.matches(':').count() == 2);
            (is_regular && !options.lists_as_json).then_some(ArrayEncoding { number, says_number, shape })
        };
        let texts = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let (kind, word) = if texts && declared == "json" {
            (ColumnKind::Slices, "json".to_owned())
        } else if is_json {
            (ColumnKind::Json, "json".to_owned())
        } else if let Some(number) = Number::of(data_type) {
            // By default, use the encoding for Python integers, not the encoding for numpy
            // integers.
            let word = if number == Number::Int64 && declared != "int64" { "int" } else { number.word() };
            (ColumnKind::Number(number), word.to_owned())
        } else if texts {
            let word = match Encoding::parse(declared) {
                Ok(Encoding::Text(text)) => text,
                _ => "str",
            };
            (ColumnKind::Slices, word.to_owned())
        } else if let Some(array) = array() {
            let word = array.word();
            (ColumnKind::Array(array), word)
        } else if let Some(parts) = parts_of(data_type, declared) {
            let word = parts.word();
            (ColumnKind::Parts(parts), word)
        } else {
            match data_type {
                DataType::Boolean => {
                    lose(Severity::Note, "written as uint8: MDS has no booleans".to_owned());
                    (ColumnKind::Truth, "uint8".to_owned())
                }
                DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_) => {
                    let word = match Encoding::parse(declared) {
                        Ok(Encoding::Image(image)) => image,
                        _ => "bytes",
                    };
                    if declared == "pkl" {
                        lose(Severity::Changed, "written as bytes: ferry does not write pickles".to_owned());
                    }
                    (ColumnKind::Slices, word.to_owned())
                }
                DataType::Decimal32(..)
                | DataType::Decimal64(..)
                | DataType::Decimal128(..)
                | DataType::Decimal256(..) => {
                    lose(Severity::Changed, "written as str_decimal and read as text".to_owned());
                    (ColumnKind::Shown, "str_decimal".to_owned())
                }
                times if times.is_temporal() => {
                    let why = format!("written as text: MDS has no {}", type_text(times));
                    lose(Severity::Changed, why);
                    (ColumnKind::Shown, "str".to_owned())
                }
                _ => (ColumnKind::Json, "json".to_owned()),
            }
        };
        if matches!(kind, ColumnKind::Json) {
            if !json::is_json_representable(&plain_field(field, plain.as_ref())) {
                return None;
            }
            lose(Severity::Changed, "written as JSON and read as text".to_owned());
            if json::has_fractions(data_type) {
                lose(Severity::Changed, json::FRACTIONS.to_owned());
            }
        }
        let is_strict = options.nulls == Nulls::Error;
        Some(Self { field: field.clone(), place, word, kind, plain, is_strict })
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self.kind, ColumnKind::Json)
    }

    /// Returns the length of every value in bytes, or `None` if the length varies.
    pub(super) fn size(&self) -> Option<u64> {
        match &self.kind {
            ColumnKind::Number(number) => Some(number.width() as u64),
            ColumnKind::Truth => Some(1),
            ColumnKind::Array(array) => array.size().filter(|_| !array.says_number),
            _ => None,
        }
    }

    /// Encodes the values of a column. Also returns the number of nulls that were replaced.
    pub(super) fn encode(&self, column: &ArrayRef) -> Result<(Encoded, u64)> {
        self.encoded(column).map_err(|error| error.column(self.field.name()))
    }

    fn encoded(&self, column: &ArrayRef) -> Result<(Encoded, u64)> {
        let refused = |error: ArrowError| Error::unsupported(error.to_string());
        let cast = self.plain.as_ref().map(|plain| arrow_cast::cast(column, plain)).transpose();
        let column = &cast.map_err(refused)?.unwrap_or_else(|| column.clone());
        if self.is_strict && column.null_count() > 0 && !self.has_null() {
            return Err(null_refused(self.field.name()));
        }
        let nulls = column.null_count() as u64;
        Ok(match &self.kind {
            ColumnKind::Number(number) => {
                let (bytes, nulls) = number.bytes_of(column.as_ref());
                (Encoded::Fixed(number.width(), bytes), nulls)
            }
            ColumnKind::Truth => {
                let truths = column.as_boolean().iter().map(|truth| u8::from(truth.unwrap_or_default()));
                (Encoded::Fixed(1, truths.collect()), nulls)
            }
            ColumnKind::Slices => {
                let nulls = if self.has_null() { 0 } else { nulls };
                (Encoded::Slices(column.clone(), self.filler()), nulls)
            }
            ColumnKind::Shown => {
                let shown = ValueTexts::new(column.as_ref()).map_err(refused)?;
                let text = |row| {
                    if column.is_null(row) {
                        return Ok(self.filler().to_vec());
                    }
                    let mut text = String::new();
                    shown.write(row, &mut text).map_err(refused)?;
                    Ok(text.into_bytes())
                };
                (Encoded::Made((0..column.len()).map(text).collect::<Result<_>>()?), nulls)
            }
            ColumnKind::Json => {
                let field = plain_field(&self.field, self.plain.as_ref());
                (Encoded::Made(json::texts(&field, column.as_ref(), NonFinite::Python)?), 0)
            }
            ColumnKind::Array(of) => {
                let (values, nulls) = array::values(column, of)?;
                if self.is_strict && nulls > 0 {
                    return Err(null_refused(self.field.name()));
                }
                (Encoded::Made(values), nulls)
            }
            ColumnKind::Parts(of) => {
                let (values, nulls) = array::parts(column, of)?;
                (Encoded::Made(values), nulls)
            }
        })
    }

    /// Returns whether the encoding can represent a null.
    fn has_null(&self) -> bool {
        self.word == "json"
    }

    /// Returns the bytes that replace a null.
    fn filler(&self) -> &'static [u8] {
        match &*self.word {
            "json" => b"null",
            "str_int" => b"0",
            "str_float" => b"nan",
            "str_decimal" => b"NaN",
            _ => b"",
        }
    }
}

fn plain_field(field: &FieldRef, plain: Option<&DataType>) -> FieldRef {
    match plain {
        Some(plain) => Field::new(field.name(), plain.clone(), field.is_nullable()).into(),
        None => field.clone(),
    }
}
