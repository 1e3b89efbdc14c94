//! Values of columns as JSON.

use tensorferry_sdk::arrow_array::{Array, new_empty_array};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, FieldRef};
pub use tensorferry_sdk::records::json::{JsonEncoders, NonNumbers};
use tensorferry_sdk::{Error, Result};

/// The texts of a column's values.
///
/// # Errors
/// Unsupported: there is no text for one.
pub fn texts(field: &FieldRef, array: &dyn Array, non_numbers: NonNumbers) -> Result<Vec<Vec<u8>>> {
    let encoders = JsonEncoders::new(non_numbers);
    let options = encoders.options(true);
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
    let texts = (0..array.len()).map(text).collect();
    encoders.check()?;
    Ok(texts)
}

/// Whether a column can be JSON: the library's own word. Times within other values are none, since their texts may fail, nor
/// are unions, whose values do not say which type they have.
#[must_use]
pub fn can_say(field: &FieldRef) -> bool {
    let options = JsonEncoders::new(NonNumbers::Quoted).options(true);
    let none = new_empty_array(field.data_type());
    !has_unsaid(field.data_type()) && arrow_json::writer::make_encoder(field, &none, &options).is_ok()
}

fn has_unsaid(data_type: &DataType) -> bool {
    let of = |field: &FieldRef| has_unsaid(field.data_type());
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::RunEndEncoded(_, field)
        | DataType::Map(field, _) => of(field),
        DataType::Struct(fields) => fields.iter().any(of),
        DataType::Dictionary(_, values) => has_unsaid(values),
        DataType::Union(..) => true,
        other => other.is_temporal(),
    }
}
