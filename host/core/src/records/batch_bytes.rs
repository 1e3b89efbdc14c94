//! How much memory rows take.

use arrow_array::cast::AsArray;
use arrow_array::{Array, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// Bytes that a batch's rows take: a slice counts what it shows, not what lies behind it.
#[must_use]
pub(super) fn batch_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| array_bytes(column)).sum()
}

fn array_bytes(array: &dyn Array) -> u64 {
    let len = array.len() as u64;
    let nulls = if array.nulls().is_some() { len.div_ceil(8) } else { 0 };
    let own = match array.data_type() {
        DataType::List(_) => of_list(array.as_list::<i32>().offsets(), array.as_list::<i32>().values()),
        DataType::LargeList(_) => of_list(array.as_list::<i64>().offsets(), array.as_list::<i64>().values()),
        DataType::Map(..) => of_list(array.as_map().offsets(), array.as_map().entries()),
        DataType::FixedSizeList(..) => array_bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| array_bytes(column)).sum(),
        DataType::Utf8View => 16 * len + lengths(array.as_string_view().lengths()),
        DataType::BinaryView => 16 * len + lengths(array.as_binary_view().lengths()),
        // Of the dictionary as much as so many rows can show.
        DataType::Dictionary(key, _) => {
            let values = array.as_any_dictionary().values();
            let (of, shown) = (values.len().max(1) as u64, len.min(values.len() as u64));
            let of_values = u128::from(array_bytes(values)) * u128::from(shown) / u128::from(of);
            len * key.primitive_width().unwrap_or(1) as u64 + u64::try_from(of_values).unwrap_or(u64::MAX)
        }
        // What is left of these has no children.
        _ => return array.to_data().get_slice_memory_size().map_or(0, |bytes| bytes as u64),
    };
    nulls + own
}

/// Bytes of lists: where each ends, and the values that they show.
fn of_list<O: OffsetSizeTrait>(offsets: &[O], values: &dyn Array) -> u64 {
    let place = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
    let (first, end) = (place(offsets.first()), place(offsets.last()));
    size_of_val(offsets) as u64 + array_bytes(&values.slice(first, end - first))
}

fn lengths(lengths: impl Iterator<Item = u32>) -> u64 {
    lengths.map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use arrow_array::types::{Int32Type, Int64Type};
    use arrow_array::{
        ArrayRef, DictionaryArray, FixedSizeListArray, Int64Array, ListArray, StringArray, StringViewArray,
    };
    use std::sync::Arc;

    #[test]
    fn a_part_of_a_batch_counts_what_it_shows() {
        let long = "x".repeat(1000);
        let texts: Vec<&str> = (0..100).map(|n| if n < 50 { "short" } else { &*long }).collect();
        let lists = (0..100).map(|n| Some((0..if n < 50 { 1 } else { 200 }).map(Some)));
        let pairs = (0..100).map(|_| Some([Some(1), Some(2)]));
        let columns: [(&str, ArrayRef); 5] = [
            ("number", Arc::new((0..100).collect::<Int64Array>())),
            ("text", Arc::new(StringArray::from(texts.clone()))),
            ("view", Arc::new(StringViewArray::from(texts.clone()))),
            ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
            ("pair", Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(pairs, 2))),
        ];
        for (name, column) in columns {
            let batch = RecordBatch::try_from_iter([(name, column)]).unwrap();
            let of = |from: usize, len: usize| batch_bytes(&batch.slice(from, len));
            let (first, second, all) = (of(0, 50), of(50, 50), of(0, 100));
            assert!(first + second <= all + 16 && first + second >= all, "{name}: {first}, {second}, {all}");
            assert!(of(0, 1) * 50 <= first + 50 * 16, "{name}: {}, {first}", of(0, 1));
            assert!((name == "number" || name == "pair") == (first == second), "{name}");
        }
        let dictionary: DictionaryArray<Int32Type> = texts.iter().copied().collect();
        let batch = RecordBatch::try_from_iter([("key", Arc::new(dictionary) as ArrayRef)]).unwrap();
        assert!(batch_bytes(&batch.slice(0, 1)) < batch_bytes(&batch));
    }
}
