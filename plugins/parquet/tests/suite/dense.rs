//! This crate writes dense columns, and the `parquet` crate writes all other columns. ferry and the
//! library must read the same rows from dense and other columns, and the metadata of these columns
//! must agree.

use crate::common::{file, read};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, FixedSizeListArray, Float32Array, Float64Array, Int32Array,
    Int64Array, ListArray, RecordBatch, TimestampMicrosecondArray,
};
use tensorferry_sdk::arrow_schema::{DataType, Field};
use tensorferry_test_kit::random::Random;
use tensorferry_test_kit::rows::rows;

/// Number of rows, which fills several pages of most columns.
const ROWS: i32 = 40_000;

fn element(data_type: &DataType) -> Arc<Field> {
    Arc::new(Field::new("element", data_type.clone(), true))
}

/// Returns lists of one to four values.
fn lists(values: &dyn Fn(usize) -> ArrayRef, rows: usize) -> ArrayRef {
    let lens = (0..rows).map(|row| 1 + row % 4);
    let offsets = OffsetBuffer::<i32>::from_lengths(lens);
    let values = values(usize::try_from(offsets.last()).unwrap());
    Arc::new(ListArray::new(element(values.data_type()), offsets, values, None))
}

fn numbers(count: usize) -> impl Iterator<Item = i64> {
    let mut random = Random::new(7);
    (0..count).map(move |_| (random.word() >> 40).cast_signed())
}

fn ints(count: usize) -> ArrayRef {
    Arc::new(numbers(count).map(|n| n % 3000 - 100).collect::<Int64Array>())
}

/// Returns dense columns, each with a different type or shape.
fn dense(rows_wanted: i32) -> RecordBatch {
    let count = usize::try_from(rows_wanted).unwrap();
    let random = || numbers(count);
    let float = |n: i64| (n as f32 - 8e6) / 3.0;
    let fixed = Float32Array::from_iter_values(numbers(3 * count).map(float));
    let bytes = |n: i64| n.to_le_bytes().repeat(usize::try_from(n % 20).unwrap());
    let values: Vec<Vec<u8>> = random().map(bytes).collect();
    rows(vec![
        ("few", Arc::new(random().map(|n| (n % 7) as i32 - 3).collect::<Int32Array>())),
        ("one", Arc::new(random().map(|_| 5).collect::<Int64Array>())),
        ("id", Arc::new((0..i64::from(rows_wanted)).collect::<Int64Array>())),
        ("date", Arc::new(Date32Array::from_iter_values(random().map(|n| (n % 900) as i32)))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(random().map(|n| n % 1000)))),
        ("f32", Arc::new(random().map(float).collect::<Float32Array>())),
        ("f64", Arc::new(random().map(|n| f64::from(float(n))).collect::<Float64Array>())),
        ("binary", Arc::new(BinaryArray::from_iter_values(values))),
        ("tokens", lists(&ints, count)),
        ("fixed", Arc::new(FixedSizeListArray::new(element(&DataType::Float32), 3, Arc::new(fixed), None))),
    ])
}

fn metadata(bytes: &[u8]) -> ParquetMetaData {
    ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::copy_from_slice(bytes)).unwrap()
}

/// Reads all rows as one batch with the `parquet` crate.
fn by_library(file: &[u8]) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::copy_from_slice(file)).unwrap();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// Returns whether the `parquet` crate wrote the chunk. Unlike this crate, the library adds
/// histograms of the levels.
fn is_of_library(metadata: &ParquetMetaData, column: usize) -> bool {
    metadata.row_group(0).column(column).definition_level_histogram().is_some()
}

#[test]
fn dense_columns_are_read_as_they_were() {
    let whole = dense(ROWS);
    let pieces = [whole.slice(0, 999), whole.slice(999, 30_000), whole.slice(30_999, ROWS as usize - 30_999)];
    for compression in ["snappy", "none"] {
        let written = file(&pieces, &[("compression", compression)]);
        let metadata = metadata(&written);
        assert_eq!(metadata.num_row_groups(), 3);
        for column in 0..whole.num_columns() {
            assert!(!is_of_library(&metadata, column), "{}", whole.schema().field(column).name());
        }
        let read = read(&written).unwrap();
        let read = arrow_select::concat::concat_batches(&read[0].schema(), &read).unwrap();
        assert_eq!(read, whole);
        assert_eq!(by_library(&written), whole);
    }
}

#[test]
fn what_is_said_of_a_chunk_is_what_the_library_says() {
    let zeros: ArrayRef =
        Arc::new(Float32Array::from_iter_values((0..3000).map(|n| [0.0, -0.0, -1.0][n % 3])));
    let max: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..3000).map(|n| [f64::INFINITY, -0.0, f64::NAN, f64::NEG_INFINITY][n % 4]),
    ));
    let dense = dense(3000);
    let schema = dense.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let columns = names.zip(dense.columns().iter().cloned()).chain([("zeros", zeros), ("most", max)]);
    let batch = rows(columns.collect());
    let [ours, theirs] = [("auto", "snappy"), ("true", "snappy")].map(|(dictionary, codec)| {
        metadata(&file(std::slice::from_ref(&batch), &[("dictionary", dictionary), ("compression", codec)]))
    });
    for (column, field) in batch.schema().fields().iter().enumerate() {
        let [ours, theirs] = [&ours, &theirs].map(|metadata| metadata.row_group(0).column(column));
        let name = field.name();
        assert!(theirs.definition_level_histogram().is_some() && ours.definition_level_histogram().is_none());
        assert_eq!(ours.statistics(), theirs.statistics(), "{name}");
        assert_eq!(ours.num_values(), theirs.num_values(), "{name}");
        assert_eq!(ours.column_path(), theirs.column_path(), "{name}");
    }
}

#[test]
fn a_dictionary_is_there_where_it_saves_room() {
    let metadata = metadata(&file(&[dense(ROWS)], &[]));
    let batch = dense(1);
    for (name, has_one) in [
        ("few", true),
        ("one", true),
        ("id", false),
        ("date", true),
        ("time", true),
        ("f32", false),
        ("tokens", true),
    ] {
        let column = batch.schema().index_of(name).unwrap();
        let chunk = metadata.row_group(0).column(column);
        assert_eq!(chunk.dictionary_page_offset().is_some(), has_one, "{name}");
        assert_eq!(chunk.encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY), has_one, "{name}");
    }
}

#[test]
fn what_does_not_shrink_is_not_compressed() {
    let random: Vec<Vec<u8>> = numbers(3000)
        .map(|n| numbers(40).flat_map(|m| (n.wrapping_mul(m) >> 7).to_le_bytes()[..3].to_vec()).collect())
        .collect();
    let zeros = vec![vec![0_u8; 100]; 3000];
    let column = |values: &[Vec<u8>]| -> ArrayRef { Arc::new(BinaryArray::from_iter_values(values)) };
    let batch = rows(vec![("random", column(&random)), ("zeros", column(&zeros))]);
    let written = file(std::slice::from_ref(&batch), &[]);
    let metadata = metadata(&written);
    let codecs = [0, 1].map(|column| metadata.row_group(0).column(column).compression());
    assert_eq!(codecs, [Compression::UNCOMPRESSED, Compression::SNAPPY]);
    assert_eq!(by_library(&written), batch);
}

#[test]
fn a_row_longer_than_a_page_is_a_page() {
    let long: Vec<Vec<u8>> = [3, 5 << 20, 0, 2 << 20, 1].iter().map(|&len| vec![7; len]).collect();
    let tokens = lists(&|_| ints(4_000_000), 1);
    let offsets =
        OffsetBuffer::new(ScalarBuffer::from(vec![0, 1, 3_000_000, 3_000_001, 3_000_002, 4_000_000]));
    let values = tokens.as_any().downcast_ref::<ListArray>().unwrap().values().clone();
    let tokens = ListArray::new(element(&DataType::Int64), offsets, values, None);
    let batch =
        rows(vec![("s", Arc::new(BinaryArray::from_iter_values(long))), ("tokens", Arc::new(tokens))]);
    let written = file(std::slice::from_ref(&batch), &[]);
    assert!(!is_of_library(&metadata(&written), 1));
    assert_eq!(by_library(&written), batch);
}

#[test]
fn columns_with_holes_and_wide_ranges_are_left_to_the_library() {
    let empty = OffsetBuffer::from_lengths([1, 0, 2]);
    let list =
        ListArray::new(element(&DataType::Int64), empty, Arc::new(Int64Array::from(vec![1, 2, 3])), None);
    let batch = rows(vec![
        ("null", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ("empty", Arc::new(list)),
        ("wide", Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX]))),
        ("dense", Arc::new(Float64Array::from(vec![1.0, f64::NAN, -0.0]))),
        ("nan", Arc::new(Float32Array::from(vec![f32::NAN; 3]))),
    ]);
    let written = file(std::slice::from_ref(&batch), &[]);
    let metadata = metadata(&written);
    let of_library = [0, 1, 2, 3, 4].map(|column| is_of_library(&metadata, column));
    assert_eq!(of_library, [true, true, true, false, false]);
    let read = by_library(&written);
    assert_eq!(format!("{read:?}"), format!("{batch:?}"));
}
