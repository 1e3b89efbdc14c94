//! Measures how much memory rows take.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RecordBatch, RunArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// A function that returns the size in bytes of a batch's rows.
pub(crate) type Measure = fn(&RecordBatch) -> u64;

/// Returns the size in bytes of a batch's rows. For a sliced array, counts only the slice's values,
/// not the array's whole buffers.
#[must_use]
pub(crate) fn batch_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| array_bytes(column, false)).sum()
}

/// Returns the size in bytes of a batch's rows for a text format. In memory, several rows may share
/// one value, but text repeats the value for each row.
#[must_use]
pub(crate) fn repeated_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| array_bytes(column, true)).sum()
}

fn array_bytes(array: &dyn Array, repeats: bool) -> u64 {
    let len = array.len() as u64;
    let nulls = if array.nulls().is_some() { len.div_ceil(8) } else { 0 };
    let of_list = |bytes: u64, shown: ArrayRef| bytes + array_bytes(&shown, repeats);
    let own = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            of_list(size_of_val(&**list.offsets()) as u64, shown(list.offsets(), list.values()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            of_list(size_of_val(&**list.offsets()) as u64, shown(list.offsets(), list.values()))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            of_list(size_of_val(&**map.offsets()) as u64, shown(map.offsets(), map.entries()))
        }
        DataType::ListView(_) if repeats => array.as_list_view::<i32>().iter().map(of_row).sum(),
        DataType::LargeListView(_) if repeats => array.as_list_view::<i64>().iter().map(of_row).sum(),
        DataType::FixedSizeList(..) => array_bytes(array.as_fixed_size_list().values(), repeats),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| array_bytes(column, repeats)).sum()
        }
        DataType::Utf8View => 16 * len + lengths(array.as_string_view().lengths()),
        DataType::BinaryView => 16 * len + lengths(array.as_binary_view().lengths()),
        DataType::Dictionary(key, _) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            let of_values = if repeats && !values.is_empty() {
                let keys = dictionary.normalized_keys();
                keys.into_iter().map(|key| value_bytes(values, key)).fold(0, u64::saturating_add)
            } else {
                // Counts at most one dictionary value per row, because the rows cannot refer to
                // more values.
                let (of, shown) = (values.len().max(1) as u64, len.min(values.len() as u64));
                let bytes = u128::from(array_bytes(values, repeats)) * u128::from(shown) / u128::from(of);
                u64::try_from(bytes).unwrap_or(u64::MAX)
            };
            (len * key.primitive_width().unwrap_or(1) as u64).saturating_add(of_values)
        }
        DataType::RunEndEncoded(ends, _) if repeats => match ends.data_type() {
            DataType::Int16 => of_runs(array.as_any().downcast_ref::<RunArray<Int16Type>>()),
            DataType::Int32 => of_runs(array.as_any().downcast_ref::<RunArray<Int32Type>>()),
            _ => of_runs(array.as_any().downcast_ref::<RunArray<Int64Type>>()),
        },
        // The remaining types do not contain other arrays.
        _ => return array.to_data().get_slice_memory_size().map_or(0, |bytes| bytes as u64),
    };
    nulls + own
}

/// Returns the size in bytes of one value of a dictionary or run array.
fn value_bytes(values: &ArrayRef, at: usize) -> u64 {
    match values.data_type() {
        DataType::Utf8 => u64::from(values.as_string::<i32>().value_length(at).unsigned_abs()),
        DataType::LargeUtf8 => values.as_string::<i64>().value_length(at).unsigned_abs(),
        DataType::Binary => u64::from(values.as_binary::<i32>().value_length(at).unsigned_abs()),
        DataType::LargeBinary => values.as_binary::<i64>().value_length(at).unsigned_abs(),
        _ => array_bytes(&values.slice(at, 1), true),
    }
}

fn of_row(list: Option<ArrayRef>) -> u64 {
    list.map_or(0, |list| array_bytes(&list, true))
}

/// Returns the size in bytes of a run array if each value is repeated for every row of its run.
fn of_runs<E: RunEndIndexType>(runs: Option<&RunArray<E>>) -> u64 {
    let Some(runs) = runs.filter(|runs| !runs.is_empty()) else { return 0 };
    let ends = runs.run_ends();
    let (mut from, end) = (ends.offset(), ends.offset() + runs.len());
    let mut bytes = 0_u64;
    for at in ends.get_start_physical_index()..=ends.get_end_physical_index() {
        let until = ends.values()[at].as_usize().min(end);
        bytes = bytes.saturating_add(value_bytes(runs.values(), at).saturating_mul((until - from) as u64));
        from = until;
    }
    bytes
}

/// Returns only the part of the child array that this array's lists refer to.
fn shown<O: OffsetSizeTrait>(offsets: &[O], values: &dyn Array) -> ArrayRef {
    let place = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
    let (first, end) = (place(offsets.first()), place(offsets.last()));
    values.slice(first, end - first)
}

fn lengths(lengths: impl Iterator<Item = u32>) -> u64 {
    lengths.map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use arrow_array::{
        DictionaryArray, FixedSizeListArray, Int64Array, ListArray, StringArray, StringViewArray,
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

    #[test]
    fn a_value_that_rows_repeat_counts_for_each() {
        let texts = StringArray::from(vec!["x".repeat(1000)]);
        let keys = Int64Array::from(vec![0; 100]);
        let ends = Int64Array::from(vec![100]);
        let columns: [ArrayRef; 2] = [
            Arc::new(DictionaryArray::new(keys, Arc::new(texts.clone()))),
            Arc::new(RunArray::<Int64Type>::try_new(&ends, &texts).unwrap()),
        ];
        for column in columns {
            let batch = RecordBatch::try_from_iter([("a", column)]).unwrap().slice(10, 50);
            assert!(batch_bytes(&batch) < 3000, "{}", batch_bytes(&batch));
            assert!((50_000..51_000).contains(&repeated_bytes(&batch)), "{}", repeated_bytes(&batch));
        }
    }
}
