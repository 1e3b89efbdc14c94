//! Files from other writers: DuckDB, ClickHouse, Spark, pyarrow, polars and parquet-mr. Without
//! ferry's corrections, the `parquet` crate reads their types and layouts incorrectly or not at
//! all.

use crate::common::{file, open, read};
use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tensorferry_parquet::Parquet;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use tensorferry_sdk::arrow_array::{Array, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, IntervalUnit, TimeUnit};
use tensorferry_sdk::memory::{pairs, records};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{ErrorKind, Limits, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::rows::batches;

fn data(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

/// Reads all rows of a file as one batch with these options.
fn read_with(name: &str, options: &[(&str, &str)]) -> Result<RecordBatch> {
    let source = Arc::new(MemorySource::file(name, data(name)));
    let set = records::open(&Parquet, &pairs(options), source, &MemoryContext::default())?;
    Ok(batches(&*set, &Batches::default())?.remove(0))
}

/// Returns the Parquet schema of a file as a string.
fn schema_text(bytes: Vec<u8>) -> String {
    let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
    format!("{:?}", reader.metadata().file_metadata().schema())
}

#[test]
fn int96_is_never_a_different_time() {
    let spark = read_with("int96_from_spark.parquet", &[]).unwrap();
    let expected = [
        Some(1_704_141_296_123_456),
        Some(1_704_070_800_000_000),
        Some(253_402_225_200_000_000),
        Some(1_735_599_600_000_000),
        None,
        Some(9_089_380_393_200_000_000),
    ];
    let found = spark.column(0).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    let error = read_with("int96_from_spark.parquet", &[("int96", "ns")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("range of nanosecond timestamps")
            && error.to_string().contains("column \"a\""),
        "{error}"
    );

    let pyarrow = read_with("int96_pa.parquet", &[]).unwrap();
    let found = pyarrow.column(1).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(found.values()[..2], [32_503_593_600_000_000, -14_831_726_399_999_995]);
}

#[test]
fn intervals_keep_their_months() {
    let rows = read_with("interval.parquet", &[]).unwrap();
    let found = rows.column(0).as_primitive::<IntervalMonthDayNanoType>();
    assert_eq!(found.value(0), IntervalMonthDayNano::new(1, 2, 3_000_000));
    let written = file(std::slice::from_ref(&rows), &[]);
    assert!(schema_text(written.clone()).contains("INTERVAL"));
    assert_eq!(read(&written).unwrap(), [rows]);
}

#[test]
fn logical_types_are_written_again() {
    for (name, logical) in [("uuid.parquet", "Uuid"), ("enum.parquet", "Enum")] {
        let rows = read_with(name, &[]).unwrap();
        let written = file(std::slice::from_ref(&rows), &[]);
        assert!(schema_text(written.clone()).contains(logical), "{name}");
        let back = read(&written).unwrap();
        assert_eq!((back[0].schema(), &back[0]), (rows.schema(), &rows));
    }
    let rows = read_with("enum.parquet", &[]).unwrap();
    assert_eq!(rows.column(0).data_type(), &DataType::Utf8);
    let set = open(MemorySource::file("in.parquet", data("variant.parquet")), Limits::default()).unwrap();
    let losses = set.losses().unwrap();
    assert_eq!(losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(), ["var"]);
}

#[test]
fn zones_are_those_of_the_arrow_schema() {
    let rows = read_with("tz_us.parquet", &[]).unwrap();
    let zone = Some("America/New_York".into());
    assert_eq!(rows.column(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, zone));
}

#[test]
fn dictionaries_may_have_no_values() {
    let nulls = read_with("dictionary_of_nulls.parquet", &[]).unwrap();
    assert_eq!((nulls.column(0).data_type(), nulls.num_rows()), (&DataType::Null, 3));
    let rows = read_with("dictionary_without_values.parquet", &[]).unwrap();
    assert_eq!(rows.column(1).logical_null_count(), 2);
    assert_eq!(read(&file(std::slice::from_ref(&rows), &[])).unwrap(), [rows]);
}

#[test]
fn old_files_are_read_or_unsupported() {
    let rows = read_with("v2_pages_of_old_arrow.parquet", &[]).unwrap();
    let texts = rows.column(1);
    let texts = texts.as_any_dictionary_opt().map_or(texts.clone(), |of| of.values().clone());
    assert_eq!(texts.as_string::<i32>().value(4), "e");
    for (name, why) in [
        ("footer_field_of_another_type.parquet", "wrong type"),
        ("int128.parquet", "Int type with bit width of 128"),
    ] {
        let error = read_with(name, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn an_interval_that_parquet_does_not_have_is_an_error() {
    let interval = |value| {
        let values = vec![Some(value), None];
        let column: tensorferry_sdk::arrow_array::ArrayRef =
            Arc::new(tensorferry_sdk::arrow_array::PrimitiveArray::<IntervalMonthDayNanoType>::from(values));
        let rows = tensorferry_test_kit::rows::rows(vec![("i", column)]);
        crate::common::write(&rows.schema(), &[vec![rows.clone()]], &[]).map(|written| (written, rows))
    };
    let (written, rows) = interval(IntervalMonthDayNano::new(14, 3, 4_000_000)).unwrap();
    assert_eq!(rows.column(0).data_type(), &DataType::Interval(IntervalUnit::MonthDayNano));
    assert_eq!(read(&written.files["out.parquet"]).unwrap(), [rows]);
    for value in [IntervalMonthDayNano::new(-1, 0, 0), IntervalMonthDayNano::new(0, 0, 1)] {
        assert_eq!(interval(value).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
