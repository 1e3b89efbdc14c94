//! Values of columns as JSON.

use tensorferry_sdk::arrow_array::new_empty_array;
use tensorferry_sdk::arrow_schema::{DataType, FieldRef};
pub use tensorferry_sdk::records::json::{JsonEncoders, NonNumbers, json_texts as texts};

/// Whether a column can be JSON: the library's own word. Unions cannot: their values do not say which type they have.
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
        _ => false,
    }
}

/// Whether a type has decimals with digits after the point anywhere: JSON readers take them for floats.
#[must_use]
pub fn has_fractions(data_type: &DataType) -> bool {
    let of = |field: &FieldRef| has_fractions(field.data_type());
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale > 0,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::RunEndEncoded(_, field)
        | DataType::Map(field, _) => of(field),
        DataType::Struct(fields) => fields.iter().any(of),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| of(field)),
        DataType::Dictionary(_, values) => has_fractions(values),
        _ => false,
    }
}

/// Why [`has_fractions`] is a loss, for a column that is written as JSON.
pub const FRACTIONS: &str =
    "JSON has no decimals: they are written as numbers, which most readers round to floats";
