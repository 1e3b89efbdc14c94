//! Tests of the tensors that a column becomes.
#![expect(clippy::unwrap_used, reason = "tests")]
use super::super::column_path::column_paths;
use super::*;
use arrow_array::types::{Float32Type, Int8Type, Int64Type};
use arrow_array::{DictionaryArray, FixedSizeListArray, Int32Array, ListArray, StringArray, StructArray};
use arrow_schema::{Field, Schema};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tensorferry_core::context::session::Session;
use tensorferry_tensors::stored::Spill;

/// Spools the rows of an array in two batches. Returns the names, shapes and bytes of the resulting
/// tensors.
fn tensors(array: &dyn Array, splits_strings: bool) -> Vec<(String, Vec<u64>, Vec<u8>)> {
    let schema = Schema::new(vec![Field::new("x", array.data_type().clone(), true)]);
    let (paths, _) = column_paths(&schema, splits_strings);
    let spill: Spill = Box::new(|| Ok(tempfile::tempfile()?));
    let spools = Spools::new(&spill, 8, &Session::default());
    let mut made = Vec::new();
    for path in &paths {
        let mut column = ColumnSpooler::new(path, &spools).unwrap();
        let half = array.len() / 2;
        column.push(&array.slice(0, half)).unwrap();
        column.push(&array.slice(half, array.len() - half)).unwrap();
        made.extend(column.finish().unwrap());
    }
    let files = spools.into_files();
    let bytes = |SpooledTensor { name, shape, bytes: at, .. }: SpooledTensor| {
        let mut bytes = vec![0; usize::try_from(at.len).unwrap()];
        files[at.file].read_exact_at(&mut bytes, at.offset).unwrap();
        (name, shape, bytes)
    };
    made.into_iter().map(bytes).collect()
}

fn tensor(name: &str, shape: &[u64], bytes: Vec<u8>) -> (String, Vec<u64>, Vec<u8>) {
    (name.to_owned(), shape.to_vec(), bytes)
}

fn le<const N: usize>(numbers: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    numbers.into_iter().flatten().collect()
}

fn splits(ends: &[i64]) -> Vec<u8> {
    le(ends.iter().map(|end| end.to_le_bytes()))
}

#[test]
fn what_is_missing_is_zero_and_said() {
    let numbers = Int32Array::from(vec![Some(1), Some(2), None, Some(4)]);
    let values = le([1_i32, 2, 0, 4].map(i32::to_le_bytes));
    let expected = [tensor("x", &[4], values), tensor("x.valid", &[4], vec![1, 1, 0, 1])];
    assert_eq!(tensors(&numbers, false), expected);
    let words: DictionaryArray<Int8Type> = [Some("a"), None, Some("bc"), Some("a")].into_iter().collect();
    let text = [&[1, 0, 0, 0, 0, 0, 0, 0, b'a'][..], &[0; 8], &[2, 0, 0, 0, 0, 0, 0, 0, b'b', b'c']];
    let values = [text[0], text[1], text[2], text[0]].concat();
    let expected = [tensor("x", &[4], values), tensor("x.valid", &[4], vec![1, 0, 1, 1])];
    assert_eq!(tensors(&words, false), expected);
}

#[test]
fn lists_of_one_length_are_a_dimension() {
    let even = ListArray::from_iter_primitive::<Int64Type, _, _>((0..3).map(|n| Some([Some(n), Some(7)])));
    let values = le([0_i64, 7, 1, 7, 2, 7].map(i64::to_le_bytes));
    assert_eq!(tensors(&even, false), [tensor("x", &[3, 2], values.clone())]);
    // If any value is missing, the lists do not become a dimension.
    let rows = [vec![Some(0), Some(7)], vec![Some(1), None], vec![Some(2), Some(7)]];
    let holes = ListArray::from_iter_primitive::<Int64Type, _, _>(rows.map(Some));
    let mut without = values;
    without[24..32].fill(0);
    let expected = [
        tensor("x.row_splits", &[4], splits(&[0, 2, 4, 6])),
        tensor("x.values", &[6], without),
        tensor("x.values.valid", &[6], vec![1, 1, 1, 0, 1, 1]),
    ];
    assert_eq!(tensors(&holes, false), expected);
    // If the schema fixes the length of lists, a missing list also has this length.
    let rows = [Some(vec![Some(1.0), Some(2.0)]), None, Some(vec![Some(3.0), Some(4.0)])];
    let fixed = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2);
    let values = le([1_f32, 2.0, 0.0, 0.0, 3.0, 4.0].map(f32::to_le_bytes));
    let expected = [tensor("x", &[3, 2], values), tensor("x.valid", &[3], vec![1, 0, 1])];
    assert_eq!(tensors(&fixed, false), expected);
}

#[test]
fn strings_and_structs_are_taken_apart() {
    let words = StringArray::from(vec![Some("ab"), None, Some("cd")]);
    let expected = [
        tensor("x.row_splits", &[4], splits(&[0, 2, 2, 4])),
        tensor("x.valid", &[3], vec![1, 0, 1]),
        tensor("x.values", &[4], b"abcd".to_vec()),
    ];
    assert_eq!(tensors(&words, true), expected);
    // If a struct is missing, its fields are also missing.
    let field = Arc::new(Field::new("n", DataType::Int32, true));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let nulls = NullBuffer::from(vec![true, false, true]);
    let structs = StructArray::try_new(vec![field].into(), vec![numbers], Some(nulls)).unwrap();
    let values = le([1_i32, 0, 3].map(i32::to_le_bytes));
    let expected = [tensor("x.n", &[3], values), tensor("x.n.valid", &[3], vec![1, 0, 1])];
    assert_eq!(tensors(&structs, false), expected);
}
