//! Tests of datasets that the `mosaicml-streaming` library wrote, and of datasets that must be
//! refused.

use crate::common::{case, folder, read};
use serde_json::Value;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::{Entry, ErrorKind, MemorySource};
use tensorferry_test_kit::fixtures::{cases, expected, name_of, sha256};

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for path in cases("mds", "") {
        let name = name_of(&path);
        if name == "bad_traversal" {
            continue;
        }
        let found = read(folder(&case(name)), &[]);
        if name.starts_with("bad_") {
            let error = found.err().unwrap_or_else(|| panic!("{name} is read"));
            assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
            assert!(error.details().any(|(detail, _)| detail == "file"), "{name}: {error}");
            refused += 1;
            continue;
        }
        let (batches, losses) = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(losses.is_empty(), name != "pickle_column", "{name}: {losses:?}");
        if let Some(rows) = expected(&path)["rows"].as_array() {
            compare(&batches, rows, name);
        }
        ok += 1;
    }
    assert_eq!((ok, refused), (4, 5));
}

#[test]
fn a_shard_outside_of_its_folder_is_refused() {
    let source = MemorySource::new(Entry::File("t/index.json".to_owned()), case("bad_traversal"));
    let error = read(source, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("../secret.mds"), "{error}");
}

#[test]
fn a_shard_alone_is_read_by_the_index_beside_it() {
    let files = case("sharded_hashed");
    let source = MemorySource::new(Entry::File("shard.00001.mds".to_owned()), files);
    let (batches, _) = read(source, &[]).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 9);
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 13);
}

#[test]
fn a_wrong_hash_is_read_where_the_user_says_so() {
    assert!(read(folder(&case("bad_hash")), &[("verify", "false")]).is_ok());
}

/// Compares rows with the reference. In the reference, bytes are in base64, and an array consists
/// of a type, a shape and a hash.
fn compare(batches: &[RecordBatch], rows: &[Value], case: &str) {
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(count, rows.len(), "{case}");
    let found = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| batch.slice(row, 1)));
    let mut compared = 0;
    for (number, (found, expected)) in found.zip(rows).enumerate() {
        for (name, expected) in expected.as_object().unwrap() {
            let column = found.column_by_name(name).unwrap();
            assert!(
                is_same(column, expected),
                "{case}, row {number}, {name}: found {column:?}, expected {expected}"
            );
            compared += 1;
        }
    }
    assert!(compared > 0);
}

fn is_same(column: &ArrayRef, expected: &Value) -> bool {
    if let Some(hash) = expected.get("sha256") {
        let (dtype, shape, bytes) = array(column);
        let hex = sha256(&bytes);
        let reported: Vec<u64> =
            expected["shape"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        return (Some(&*hex), Some(&*dtype), shape) == (hash.as_str(), expected["dtype"].as_str(), reported);
    }
    match column.data_type() {
        DataType::Utf8 => {
            let text = column.as_string::<i32>().value(0);
            let as_json = || serde_json::from_str::<Value>(text).ok();
            expected.as_str() == Some(text) || as_json().as_ref() == Some(expected)
        }
        DataType::Binary => {
            // Byte values in these fixtures are short, so the reference contains them completely.
            let bytes = column.as_binary::<i32>().value(0);
            let groups = bytes.len().div_ceil(3) * 4;
            expected.as_str().is_some_and(|text| text.len() == groups)
        }
        DataType::Float16 => {
            let value = column.as_primitive::<Float16Type>().value(0).to_f64();
            expected.as_f64() == Some(value)
        }
        DataType::Float32 => expected.as_f64() == Some(column.as_primitive::<Float32Type>().value(0).into()),
        DataType::Float64 => expected.as_f64() == Some(column.as_primitive::<Float64Type>().value(0)),
        _ => {
            let (_, _, bytes) = array(column);
            let is_below = bytes[bytes.len() - 1] > 0x7f && column.data_type().is_signed_integer();
            let mut wide = [if is_below { 0xff } else { 0 }; 16];
            wide[..bytes.len()].copy_from_slice(&bytes);
            let value = i128::from_le_bytes(wide);
            expected.as_i64().map(i128::from).or(expected.as_u64().map(i128::from)) == Some(value)
        }
    }
}

/// Returns the type and shape of the array in a column with one row, and the little-endian bytes of
/// its numbers.
fn array(column: &ArrayRef) -> (String, Vec<u64>, Vec<u8>) {
    let (dtype, mut shape, bytes) = below(column);
    if !matches!(column.data_type(), DataType::Struct(_)) {
        shape.remove(0);
    }
    (dtype, shape, bytes)
}

/// Returns the same as `array`, but the number of rows is the first dimension of the shape.
fn below(column: &ArrayRef) -> (String, Vec<u64>, Vec<u8>) {
    macro_rules! numbers {
        ($type:ty) => {
            column.as_primitive::<$type>().values().iter().flat_map(|value| value.to_le_bytes()).collect()
        };
    }
    let bytes: Vec<u8> = match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let ends: Vec<usize> =
                list.value_offsets().iter().map(|end| usize::try_from(*end).unwrap()).collect();
            let (first, last) = (ends[0], ends[ends.len() - 1]);
            let (dtype, mut shape, bytes) = below(&list.values().slice(first, last - first));
            let lists = column.len() as u64;
            assert_eq!(shape[0] % lists, 0);
            let each = shape[0] / lists;
            shape.splice(..1, [lists, each]);
            return (dtype, shape, bytes);
        }
        DataType::FixedSizeList(_, len) => {
            let list = column.as_fixed_size_list();
            let (dtype, mut shape, bytes) = below(list.values());
            shape.splice(..1, [column.len() as u64, u64::try_from(*len).unwrap()]);
            return (dtype, shape, bytes);
        }
        DataType::Struct(_) => {
            let parts = column.as_struct();
            let shape = parts.column_by_name("shape").unwrap().as_list::<i32>().value(0);
            let values = parts.column_by_name("values").unwrap().as_list::<i32>().value(0);
            let (dtype, _, bytes) = below(&values);
            return (dtype, shape.as_primitive::<UInt64Type>().values().to_vec(), bytes);
        }
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        other => panic!("{other}"),
    };
    (column.data_type().to_string().to_lowercase(), vec![column.len() as u64], bytes)
}
