//! The types that files use for columns. Views and runs are only in-memory representations.

use super::cast::cast;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use std::sync::Arc;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// A function that returns the type to use in place of a dictionary type. Its arguments are the key
/// type and the plain value type.
pub(crate) type OfDictionary<'a> = &'a dyn Fn(&DataType, DataType) -> DataType;

/// Replaces views and runs in a type with plain types.
pub(crate) fn plain_type(data_type: &DataType, dictionary: OfDictionary<'_>) -> DataType {
    let field = |field: &FieldRef| plain_field(field, dictionary);
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(keys, values) => dictionary(keys, plain_type(values, dictionary)),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type(), dictionary),
        DataType::List(item) | DataType::ListView(item) => DataType::List(field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(field(item), *len),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// Returns the field with its [plain type](plain_type).
pub(crate) fn plain_field(field: &FieldRef, dictionary: OfDictionary<'_>) -> FieldRef {
    let plain = plain_type(field.data_type(), dictionary);
    let is_same = plain == *field.data_type();
    if is_same { field.clone() } else { Arc::new(Field::clone(field).with_data_type(plain)) }
}

/// Returns the type in which a column's values are compared. The type does not contain runs or
/// dictionaries.
pub(super) fn compared(data_type: &DataType) -> DataType {
    // Views can be compared without a conversion.
    match data_type {
        DataType::Utf8View | DataType::BinaryView => data_type.clone(),
        other => plain_type(other, &|_, values| values),
    }
}

/// Casts a column to the type that [`compared`] returns for the column's type.
pub(super) fn compared_column(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let to = compared(column.data_type());
    if to == *column.data_type() { Ok(column.clone()) } else { cast(column, &to, true) }
}
