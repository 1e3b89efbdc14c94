//! Values of columns as JSON.

use arrow_json::writer::NullableEncoder;
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use std::io::Write as _;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{Float16Type, Float32Type, Float64Type};
use tensorferry_sdk::arrow_array::{Array, new_empty_array};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, FieldRef};
use tensorferry_sdk::{Error, Result};

/// How floats that are no numbers are said, for which JSON has no words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonNumbers {
    /// As texts: `"NaN"`, `"Infinity"`, `"-Infinity"`.
    Quoted,
    /// In the words of Python's `json`: `NaN`, `Infinity`, `-Infinity`.
    Python,
}

/// The texts of a column's values.
///
/// # Errors
/// Unsupported: the library has no text for one.
pub fn texts(field: &FieldRef, array: &dyn Array, non_numbers: NonNumbers) -> Result<Vec<Vec<u8>>> {
    let options = options(non_numbers);
    let refused = |error: ArrowError| Error::unsupported(error.to_string()).context("JSON cannot say this");
    let mut encoder = arrow_json::writer::make_encoder(field, array, &options).map_err(refused)?;
    let text = |row| {
        let mut text = Vec::new();
        if encoder.is_null(row) {
            text.extend_from_slice(b"null");
        } else {
            encoder.encode(row, &mut text);
        }
        text
    };
    Ok((0..array.len()).map(text).collect())
}

/// Whether a column can be JSON: the library's own word. Times within other values are none: their texts may fail.
#[must_use]
pub fn can_say(field: &FieldRef) -> bool {
    let (none, options) = (new_empty_array(field.data_type()), options(NonNumbers::Quoted));
    !has_time(field.data_type()) && arrow_json::writer::make_encoder(field, &none, &options).is_ok()
}

fn options(non_numbers: NonNumbers) -> EncoderOptions {
    EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(Floats(non_numbers)))
}

fn has_time(data_type: &DataType) -> bool {
    let of = |field: &FieldRef| has_time(field.data_type());
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::RunEndEncoded(_, field)
        | DataType::Map(field, _) => of(field),
        DataType::Struct(fields) => fields.iter().any(of),
        DataType::Dictionary(_, values) => has_time(values),
        other => other.is_temporal(),
    }
}

/// Makes encoders of floats: the library's own writes `null` for those that are no numbers.
#[derive(Debug)]
struct Floats(NonNumbers);

impl EncoderFactory for Floats {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let words = self.0;
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
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
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

struct FloatEncoder<F>(F);

impl<F: Fn(usize, &mut Vec<u8>)> Encoder for FloatEncoder<F> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        (self.0)(row, out);
    }
}

fn float<'a, T>(value: impl Fn(usize) -> T + 'a, words: NonNumbers) -> Box<dyn Encoder + 'a>
where
    T: Into<f64> + Copy + std::fmt::Debug,
{
    Box::new(FloatEncoder(move |row, out: &mut Vec<u8>| {
        let value = value(row);
        let wide: f64 = value.into();
        // Into memory: it cannot fail. The shortest text that is this number, as Python's `repr` is.
        if wide.is_finite() {
            drop(write!(out, "{value:?}"));
            return;
        }
        let word = match wide {
            wide if wide.is_nan() => "NaN",
            wide if wide > 0.0 => "Infinity",
            _ => "-Infinity",
        };
        drop(match words {
            NonNumbers::Quoted => write!(out, "\"{word}\""),
            NonNumbers::Python => write!(out, "{word}"),
        });
    }))
}
