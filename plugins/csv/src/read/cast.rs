//! Casts strings to the types of columns.

use super::SchemaOrigin;
use super::fault::{HINT, shown};
use crate::kind::Kind;
use arrow_cast::CastOptions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use tensorferry_row_text::{ColumnLosses, exact};
use tensorferry_sdk::arrow_array::builder::BinaryBuilder;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::Float64Type;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, NullArray, StringArray};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::{Error, LossKind, Result};

/// Casts strings to a column's type. If a string cannot be converted, returns the row of the first
/// such string, and an error.
pub(super) fn cast(
    texts: StringArray,
    field: &Field,
    origin: SchemaOrigin,
    losses: &ColumnLosses,
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
    if origin == SchemaOrigin::FirstRows
        && let Some(row) = (0..texts.len()).find(|row| texts.is_valid(*row) && !is_of_kind(row))
    {
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
    if matches!(origin, SchemaOrigin::FirstRows | SchemaOrigin::File)
        && let Some(floats) = all.as_primitive_opt::<Float64Type>()
        && (0..floats.len()).any(|row| exact::loses_digits(texts.value(row), floats.value(row)))
    {
        losses.add(field.name(), LossKind::Precision, exact::LOST_DIGITS);
    }
    match exact::overflowed(&all, |row| texts.value(row)) {
        Some(row) => Err(wrong(row)),
        None => Ok(all),
    }
}

pub(super) fn is_bytes(data_type: &DataType) -> bool {
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
