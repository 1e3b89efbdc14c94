//! Lists within lists: their types, and where they begin among their values.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, MapArray, OffsetSizeTrait};
use arrow_schema::DataType;
use std::sync::Arc;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// The type of a column's values, below all lists.
pub(crate) fn leaf_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            leaf_type(field.data_type())
        }
        other => other,
    }
}

/// How many lists lie within each other in a type.
pub(crate) fn depth(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            1 + depth(field.data_type())
        }
        _ => 0,
    }
}

/// Where lists begin among their values, and these; `None` if an array holds no lists.
pub(crate) fn lists(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
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
            (begins, array.as_fixed_size_list().values().clone())
        }
        _ => return None,
    })
}

/// As [`lists`], the entries of maps among them.
pub(crate) fn lists_or_maps(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    let of_maps =
        |maps: &MapArray| (places(maps.value_offsets()), Arc::new(maps.entries().clone()) as ArrayRef);
    lists(array).or_else(|| array.as_map_opt().map(of_maps))
}

fn places<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<usize> {
    offsets.iter().map(|at| at.as_usize()).collect()
}
