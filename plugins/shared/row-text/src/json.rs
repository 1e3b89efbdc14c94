//! Converts the values of columns to JSON.

use std::collections::HashSet;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, GenericListArray, MapArray, OffsetSizeTrait, downcast_run_array, new_empty_array,
};
use tensorferry_sdk::arrow_schema::{DataType, FieldRef};
use tensorferry_sdk::records::has_type;
pub use tensorferry_sdk::records::json::{JsonEncoders, NonFinite, json_texts as texts};
use tensorferry_sdk::{Loss, LossKind};

/// Returns whether arrow-json can write a column. Unions are excluded, because the JSON of a union
/// value does not contain its type.
#[must_use]
pub fn is_json_representable(field: &FieldRef) -> bool {
    let options = JsonEncoders::new(NonFinite::Quoted).options(true);
    let none = new_empty_array(field.data_type());
    !has_type(field.data_type(), &is_union)
        && arrow_json::writer::make_encoder(field, &none, &options).is_ok()
}

fn is_union(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Union(..))
}

/// Returns whether a type contains decimals with fractional digits, which JSON readers convert to
/// floats. JSON readers parse whole numbers of any length exactly.
#[must_use]
pub fn has_fractions(data_type: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    has_type(
        data_type,
        &|found| matches!(found, Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) if *scale > 0),
    )
}

/// The reason for the loss that is reported for a column if [`has_fractions`] returns true.
pub const FRACTIONS: &str =
    "JSON has no decimals: they are written as numbers, which most readers round to floats";

/// Returns the loss that is reported for a column if [`repeats_keys`] returns true.
#[must_use]
pub fn repeated_keys(column: &str) -> Loss {
    let why =
        "maps or structs have duplicate keys: all of them are written, but readers keep only the last one";
    Loss::new(LossKind::Record, column, why)
}

/// Returns whether a map at any depth of a column has duplicate string keys, or a struct has two
/// fields with the same name. JSON can contain duplicate keys, but readers keep only one of them.
#[must_use]
pub fn repeats_keys(array: &dyn Array) -> bool {
    let mut found = false;
    walk(array, &mut |array| {
        found = found
            || match array.data_type() {
                DataType::Map(..) => has_repeated_key(array.as_map()),
                DataType::Struct(fields) => {
                    let mut names = HashSet::new();
                    !fields.iter().all(|field| names.insert(field.name()))
                }
                _ => false,
            };
    });
    found
}

/// Calls `leaf` for each array in a column that does not contain nested arrays.
pub fn for_each_leaf(array: &dyn Array, leaf: &mut dyn FnMut(&dyn Array)) {
    walk(array, &mut |array| {
        if !array.data_type().is_nested() {
            leaf(array);
        }
    });
}

/// Visits an array and all arrays inside it, except the keys of maps.
fn walk(array: &dyn Array, visit: &mut dyn FnMut(&dyn Array)) {
    visit(array);
    match array.data_type() {
        DataType::List(_) => walk(&list_values(array.as_list::<i32>()), visit),
        DataType::LargeList(_) => walk(&list_values(array.as_list::<i64>()), visit),
        DataType::ListView(_) => walk(array.as_list_view::<i32>().values(), visit),
        DataType::LargeListView(_) => walk(array.as_list_view::<i64>().values(), visit),
        DataType::FixedSizeList(..) => walk(array.as_fixed_size_list().values(), visit),
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|column| walk(column, visit)),
        DataType::Union(fields, _) => {
            fields.iter().for_each(|(id, _)| walk(array.as_union().child(id), visit));
        }
        DataType::Map(..) => walk(array.as_map().values(), visit),
        DataType::Dictionary(..) => walk(array.as_any_dictionary().values(), visit),
        DataType::RunEndEncoded(..) => downcast_run_array!(
            array => walk(array.values(), visit),
            _ => {}
        ),
        _ => {}
    }
}

fn list_values<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrayRef {
    let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
    lists.values().slice(first.as_usize(), (last - first).as_usize())
}

/// Checks for duplicate string keys. Other keys are ignored, because JSON keys are always strings.
fn has_repeated_key(maps: &MapArray) -> bool {
    let keys = maps.keys();
    let key = |place: usize| match keys.data_type() {
        DataType::Utf8 => keys.as_string::<i32>().value(place),
        DataType::LargeUtf8 => keys.as_string::<i64>().value(place),
        DataType::Utf8View => keys.as_string_view().value(place),
        _ => "",
    };
    let is_text = matches!(keys.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let mut seen = HashSet::new();
    is_text
        && maps.value_offsets().windows(2).any(|bounds| {
            seen.clear();
            let (Ok(start), Ok(end)) = (usize::try_from(bounds[0]), usize::try_from(bounds[1])) else {
                return false;
            };
            end - start > 1 && (start..end).any(|place| !seen.insert(key(place)))
        })
}
