//! Nested lists: their types, and the positions of their values.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, MapArray, OffsetSizeTrait};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use std::sync::Arc;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// Returns the type of a column's values inside all lists.
pub(crate) fn leaf_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            leaf_type(field.data_type())
        }
        other => other,
    }
}

/// Returns the number of nested list levels in a type.
pub fn depth(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            1 + depth(field.data_type())
        }
        _ => 0,
    }
}

/// Returns the index of each list's first value, and the values. Returns `None` if the array does
/// not contain lists.
pub fn lists(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    Some(match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            (places(lists.value_offsets()), lists.values().clone())
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            (places(lists.value_offsets()), lists.values().clone())
        }
        DataType::FixedSizeList(_, len) => {
            let len = usize::try_from(*len).unwrap_or(0);
            let begins = (0..=array.len()).map(|list| list * len).collect();
            (begins, items_of_fixed(array.as_fixed_size_list(), len))
        }
        _ => return None,
    })
}

/// Returns the items of fixed-size lists. The items of a null list are set to null, because a file
/// may contain any values there.
fn items_of_fixed(lists: &FixedSizeListArray, len: usize) -> ArrayRef {
    let items = lists.values();
    let Some(nulls) = lists.nulls().filter(|nulls| nulls.null_count() > 0) else { return items.clone() };
    let is_missing = BooleanBuffer::collect_bool(items.len(), |item| nulls.is_null(item / len));
    // An array with these nulls can be created except for unions and runs, which do not have a null
    // mask.
    arrow_select::nullif::nullif(items, &BooleanArray::new(is_missing, None))
        .unwrap_or_else(|_| items.clone())
}

/// Returns the same result as [`lists`], but treats maps as lists of entries.
pub(crate) fn lists_or_maps(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    let of_maps =
        |maps: &MapArray| (places(maps.value_offsets()), Arc::new(maps.entries().clone()) as ArrayRef);
    lists(array).or_else(|| array.as_map_opt().map(of_maps))
}

fn places<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<usize> {
    offsets.iter().map(|at| at.as_usize()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int32Array;
    use arrow_buffer::NullBuffer;
    use arrow_schema::{DataType, Field};

    #[test]
    fn items_of_a_null_list_of_one_size_are_null() {
        let items = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        let nulls = Some(NullBuffer::from(vec![true, false]));
        let array: ArrayRef = Arc::new(FixedSizeListArray::new(field, 2, items, nulls));
        let (begins, items) = lists(&array).expect("the array contains lists");
        assert_eq!(begins, [0, 2, 4]);
        assert_eq!(items.as_primitive(), &Int32Array::from(vec![Some(1), Some(2), None, None]));
    }
}
