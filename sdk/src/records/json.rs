//! Converts values of records to JSON. Formats and the program's own output use the same JSON form.
//!
//! | Value | JSON |
//! |---|---|
//! | bytes | a base64 string |
//! | infinity or NaN | a string, or a literal of Python's `json` |
//! | a timestamp | ISO 8601, in UTC if the type has a time zone |
//! | a date, time of day or duration | ISO 8601, in the form of [`value_text`](super::value_text) |
//! | a union | only the value |
//! | any other value | the same as in `arrow-json` |
//!
//! Records may have at most 60 nesting levels, because Arrow's own libraries read schemas with at
//! most 64 nested tables.

use super::value_text::{TemporalTexts, any_byte};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UnionArray};
use arrow_json::writer::{NullableEncoder, make_encoder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use arrow_schema::{ArrowError, DataType, FieldRef};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The representation of infinities and NaN, which JSON cannot express as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonFinite {
    /// Strings, such as `"NaN"`, `"Infinity"` or `"-Infinity"`.
    Quoted,
    /// The literals that Python's `json` module uses: `NaN`, `Infinity`, `-Infinity`.
    Python,
}

/// Creates encoders for values that JSON cannot represent directly, or that `arrow-json` would
/// write differently.
#[derive(Debug, Clone)]
pub struct JsonEncoders {
    non_numbers: NonFinite,
    /// Whether a value had no string representation. This flag is needed because an encoder cannot
    /// return an error.
    has_no_text: Arc<AtomicBool>,
}

impl JsonEncoders {
    /// Creates encoders that use this representation of infinities and NaN.
    #[must_use]
    pub fn new(non_numbers: NonFinite) -> Self {
        Self { non_numbers, has_no_text: Arc::default() }
    }

    /// Returns options for `arrow-json` that use these encoders.
    #[must_use]
    pub fn options(&self, explicit_nulls: bool) -> EncoderOptions {
        EncoderOptions::default()
            .with_explicit_nulls(explicit_nulls)
            .with_encoder_factory(Arc::new(self.clone()))
    }

    /// Checks that every value encoded so far had a string representation.
    ///
    /// # Errors
    /// Returns an unsupported error if a value had no string representation.
    pub fn check(&self) -> Result<()> {
        if self.has_no_text.load(Ordering::Relaxed) {
            return Err(Error::unsupported(
                "a date or time is outside the range that can be written as text",
            )
            .hint("pass --step map:cast,columns=COLUMN,to=int64 to write it as a number"));
        }
        Ok(())
    }

    /// Performs the same check as [`check`](Self::check) after these rows have been encoded, and
    /// names the column in the error.
    ///
    /// # Errors
    /// Returns an unsupported error that names the column if a value had no string representation.
    pub fn check_batch(&self, batch: &RecordBatch) -> Result<()> {
        let Err(error) = self.check() else { return Ok(()) };
        let is_culprit = |(field, column): &(&FieldRef, &ArrayRef)| {
            let own = Self::new(self.non_numbers);
            let options = own.options(true);
            let Ok(mut encoder) = make_encoder(field, column, &options) else { return false };
            let mut text = Vec::new();
            for row in (0..column.len()).filter(|row| !encoder.is_null(*row)).collect::<Vec<_>>() {
                text.clear();
                encoder.encode(row, &mut text);
            }
            own.check().is_err()
        };
        let culprit = batch.schema_ref().fields().iter().zip(batch.columns()).find(is_culprit);
        Err(match culprit {
            Some((field, _)) => error.column(field.name()),
            None => error,
        })
    }

    /// Encodes dates and times as ISO 8601. `arrow-json` does not support time zones by name, and
    /// would write an error message for a timestamp that it cannot convert to a date.
    fn times<'a>(&self, texts: TemporalTexts<'a>) -> Box<dyn Encoder + 'a> {
        let has_no_text = self.has_no_text.clone();
        Box::new(FnEncoder(move |row, out: &mut Vec<u8>| {
            out.push(b'"');
            if texts.write(row, &mut Utf8(out)).is_err() {
                has_no_text.store(true, Ordering::Relaxed);
            }
            out.push(b'"');
        }))
    }
}

/// Appends text to bytes.
struct Utf8<'a>(&'a mut Vec<u8>);

impl fmt::Write for Utf8<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Returns the values of a column, each serialized as JSON. Nulls are included.
///
/// # Errors
/// Returns an unsupported error that names the column if a value has no string representation.
pub fn json_texts(field: &FieldRef, array: &dyn Array, non_numbers: NonFinite) -> Result<Vec<Vec<u8>>> {
    let encoders = JsonEncoders::new(non_numbers);
    let options = encoders.options(true);
    let refused = |error: ArrowError| {
        Error::unsupported(error.to_string()).context("JSON cannot represent this").column(field.name())
    };
    let mut encoder = make_encoder(field, array, &options).map_err(refused)?;
    let text = |row| {
        let mut text = Vec::new();
        if encoder.is_null(row) {
            text.extend_from_slice(b"null");
        } else {
            encoder.encode(row, &mut text);
        }
        text
    };
    let texts = (0..array.len()).map(text).collect();
    encoders.check().map_err(|error| error.column(field.name()))?;
    Ok(texts)
}

impl EncoderFactory for JsonEncoders {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let words = self.non_numbers;
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Binary => bytes(move |row| array.as_binary::<i32>().value(row)),
            DataType::LargeBinary => bytes(move |row| array.as_binary::<i64>().value(row)),
            DataType::BinaryView => bytes(move |row| array.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => bytes(move |row| array.as_fixed_size_binary().value(row)),
            DataType::Float16 => {
                let values = array.as_primitive::<Float16Type>();
                float(move |row| values.value(row).to_f32(), words)
            }
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>();
                float(move |row| values.value(row), words)
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                float(move |row| values.value(row), words)
            }
            data_type if data_type.is_temporal() => match TemporalTexts::new(array) {
                Some(texts) => self.times(texts),
                None => return Ok(None),
            },
            DataType::Utf8 => {
                let values = array.as_string::<i32>();
                string(move |row| values.value(row))
            }
            DataType::LargeUtf8 => {
                let values = array.as_string::<i64>();
                string(move |row| values.value(row))
            }
            DataType::Utf8View => {
                let values = array.as_string_view();
                string(move |row| values.value(row))
            }
            DataType::Union(fields, _) => {
                let union = array.as_union();
                let of = |(id, field): (i8, &'a FieldRef)| {
                    Ok((id, make_encoder(field, union.child(id), options)?))
                };
                let values = fields.iter().map(of).collect::<Result<_, ArrowError>>()?;
                Box::new(UnionEncoder { union, values })
            }
            _ => return Ok(None),
        };
        // A union value is null if the value that the union selects is null.
        Ok(Some(NullableEncoder::new(encoder, array.logical_nulls())))
    }
}

struct FnEncoder<F>(F);

impl<F: Fn(usize, &mut Vec<u8>)> Encoder for FnEncoder<F> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        (self.0)(row, out);
    }
}

/// Encodes only the value, because JSON cannot represent which type of the union the value has.
struct UnionEncoder<'a> {
    union: &'a UnionArray,
    values: Vec<(i8, NullableEncoder<'a>)>,
}

impl Encoder for UnionEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let (id, offset) = (self.union.type_id(row), self.union.value_offset(row));
        match self.values.iter_mut().find(|(other, _)| *other == id) {
            Some((_, values)) if !values.is_null(offset) => values.encode(offset, out),
            _ => out.extend_from_slice(b"null"),
        }
    }
}

fn bytes<'a>(value: impl Fn(usize) -> &'a [u8] + 'a) -> Box<dyn Encoder + 'a> {
    Box::new(FnEncoder(move |row, out: &mut Vec<u8>| {
        out.push(b'"');
        let (bytes, start) = (value(row), out.len());
        out.resize(start + base64::encoded_len(bytes.len(), true).unwrap_or(0), 0);
        // The buffer has exactly the length that the base64 text needs.
        let _ = STANDARD.encode_slice(bytes, &mut out[start..]);
        out.push(b'"');
    }))
}

fn string<'a>(value: impl Fn(usize) -> &'a str + 'a) -> Box<dyn Encoder + 'a> {
    Box::new(FnEncoder(move |row, out: &mut Vec<u8>| {
        let text = value(row);
        if any_byte(text.as_bytes(), |byte| (byte < b' ') | (byte == b'"') | (byte == b'\\')) {
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(out, text);
        } else {
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
        }
    }))
}

/// Encodes a floating-point number as the shortest string that parses to the same number.
fn float<'a, T>(value: impl Fn(usize) -> T + 'a, words: NonFinite) -> Box<dyn Encoder + 'a>
where
    T: Into<f64> + Copy + zmij::Float,
{
    Box::new(FnEncoder(move |row, out: &mut Vec<u8>| {
        let value = value(row);
        let wide: f64 = value.into();
        let word = match wide {
            wide if wide.is_finite() => {
                return out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
            }
            wide if wide.is_nan() => "NaN",
            wide if wide > 0.0 => "Infinity",
            _ => "-Infinity",
        };
        let quote: &[u8] = if words == NonFinite::Quoted { b"\"" } else { b"" };
        for part in [quote, word.as_bytes(), quote] {
            out.extend_from_slice(part);
        }
    }))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use arrow_array::{BinaryArray, Float64Array, StructArray, Time32SecondArray, TimestampSecondArray};
    use arrow_schema::Field;

    fn texts(array: &ArrayRef, non_numbers: NonFinite) -> Vec<String> {
        let encoders = JsonEncoders::new(non_numbers);
        let (field, options) = (field_of("v", array), encoders.options(true));
        let mut encoder = make_encoder(&field, array, &options).unwrap();
        let text = |row| {
            let mut text = Vec::new();
            encoder.encode(row, &mut text);
            String::from_utf8(text).unwrap()
        };
        (0..array.len()).map(text).collect()
    }

    fn field_of(name: &str, array: &ArrayRef) -> FieldRef {
        Arc::new(Field::new(name, array.data_type().clone(), true))
    }

    #[test]
    fn values_within_others_are_as_those_of_columns() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("b", Arc::new(BinaryArray::from(vec![&b"\xff"[..], b""]))),
            ("x", Arc::new(Float64Array::from(vec![f64::NAN, 1.5]))),
            ("t", Arc::new(TimestampSecondArray::from(vec![0, 60]).with_timezone("Europe/Zurich"))),
        ];
        let fields = columns.iter().map(|(name, array)| field_of(name, array));
        let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
        let rows: ArrayRef = Arc::new(StructArray::try_new(fields.clone().collect(), arrays, None).unwrap());
        let found = texts(&rows, NonFinite::Quoted);
        assert_eq!(found[0], r#"{"b":"/w==","x":"NaN","t":"1970-01-01T00:00:00Z"}"#);
        assert_eq!(found[1], r#"{"b":"","x":1.5,"t":"1970-01-01T00:01:00Z"}"#);
        assert!(texts(&rows, NonFinite::Python)[0].contains(r#""x":NaN"#));
    }

    #[test]
    fn a_time_that_has_no_text_is_an_error_with_its_column() {
        let times: [ArrayRef; 2] = [
            Arc::new(TimestampSecondArray::from(vec![0, i64::MAX])),
            Arc::new(Time32SecondArray::from(vec![0, 86_400])),
        ];
        for array in times {
            let inner = StructArray::from(vec![(field_of("item", &array), array.clone())]);
            let columns: [(&str, ArrayRef, bool); 2] =
                [("a", Arc::new(Time32SecondArray::from(vec![0, 1])), true), ("t", Arc::new(inner), true)];
            let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
            let encoders = JsonEncoders::new(NonFinite::Quoted);
            let options = encoders.options(true);
            let fields = batch.schema();
            for (field, column) in fields.fields().iter().zip(batch.columns()) {
                make_encoder(field, column, &options).unwrap().encode(1, &mut Vec::new());
            }
            let error = encoders.check_batch(&batch).unwrap_err();
            assert!(error.to_string().contains("column \"t\""), "{error}");
        }
    }
}
