//! Values of columns as JSON.

use tensorferry_sdk::arrow_array::new_empty_array;
use tensorferry_sdk::arrow_schema::{DataType, FieldRef};
use tensorferry_sdk::records::has_type;
pub use tensorferry_sdk::records::json::{JsonEncoders, NonNumbers, json_texts as texts};

/// Whether a column can be JSON: the library's own word. Unions cannot: their values do not say which type they have.
#[must_use]
pub fn can_say(field: &FieldRef) -> bool {
    let options = JsonEncoders::new(NonNumbers::Quoted).options(true);
    let none = new_empty_array(field.data_type());
    !has_type(field.data_type(), &is_union)
        && arrow_json::writer::make_encoder(field, &none, &options).is_ok()
}

fn is_union(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Union(..))
}

/// Whether a type has decimals with digits after the point anywhere: JSON readers take them for floats. Whole ones of any
/// length are read as what they are.
#[must_use]
pub fn has_fractions(data_type: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    has_type(
        data_type,
        &|found| matches!(found, Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) if *scale > 0),
    )
}

/// Why [`has_fractions`] is a loss, for a column that is written as JSON.
pub const FRACTIONS: &str =
    "JSON has no decimals: they are written as numbers, which most readers round to floats";
