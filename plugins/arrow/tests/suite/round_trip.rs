//! Tests that ferry reads back its own files with the same types, dictionaries and metadata. The
//! tests cover files and streams, with each codec.

use crate::{open, read, written};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tensorferry_sdk::ErrorKind;
use tensorferry_sdk::arrow_array::types::Int8Type;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch};
use tensorferry_sdk::records::ScanRequest;

const CASES: [&str; 6] = [
    "file_flat_types/data.arrow",
    "file_nested/data.arrow",
    "file_rare_types/data.arrow",
    "file_dictionary/data.arrow",
    "stream_dictionary_delta/data.arrows",
    "file_fixed_shape_tensor/data.arrow",
];

fn fixture(name: &str) -> Vec<RecordBatch> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/arrow").join(name);
    read(name.rsplit('/').next().unwrap(), fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_type_comes_back() {
    let mut trips = 0;
    for case in CASES {
        let batches = fixture(case);
        for (name, given) in [
            ("a.arrow", vec![]),
            ("a.arrows", vec![]),
            ("a.arrow", vec![("compression", "lz4")]),
            ("a.feather", vec![("compression", "zstd"), ("level", "9")]),
            ("a.ipc", vec![("form", "stream"), ("compression", "zstd")]),
        ] {
            // Write one piece per batch. Even in a file, a later batch may extend a dictionary.
            let pieces: Vec<_> = batches.iter().map(|batch| vec![batch.clone()]).collect();
            let bytes = written(name, &pieces, &given).unwrap();
            let found = read(name, bytes).unwrap();
            assert_eq!(found.len(), batches.len(), "{case} {name} {given:?}");
            for (found, batch) in found.iter().zip(&batches) {
                assert_eq!(found.schema(), batch.schema(), "{case} {name} {given:?}");
                for (found, column) in found.columns().iter().zip(batch.columns()) {
                    if column.data_type().is_nested()
                        || !matches!(
                            column.data_type(),
                            tensorferry_sdk::arrow_schema::DataType::Dictionary(..)
                        )
                    {
                        assert_eq!(found, column, "{case} {name} {given:?}");
                    }
                }
            }
            trips += 1;
        }
    }
    assert_eq!(trips, 30);
}

fn dictionary(words: &[&str]) -> Vec<RecordBatch> {
    let array: DictionaryArray<Int8Type> = words.iter().copied().collect();
    vec![RecordBatch::try_from_iter([("word", Arc::new(array) as ArrayRef)]).unwrap()]
}

#[test]
fn a_file_has_one_dictionary_and_a_stream_may_replace_it() {
    let grows = [dictionary(&["a", "b", "a"]), dictionary(&["a", "b", "c"]), dictionary(&["a"])];
    let found = read("a.arrow", written("a.arrow", &grows, &[]).unwrap()).unwrap();
    let text = format!("{found:?}");
    assert_eq!(found.len(), 3);
    assert!(text.contains("\"c\""), "{text}");
    let other = [dictionary(&["a", "b"]), dictionary(&["b", "a"])];
    let error = written("a.arrow", &other, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("dictionary changes"), "{error}");
    let found = read("a.arrows", written("a.arrows", &other, &[]).unwrap()).unwrap();
    let first = |batch: &RecordBatch| {
        let column = batch.column(0).as_any().downcast_ref::<DictionaryArray<Int8Type>>().unwrap();
        let words = column.downcast_dict::<tensorferry_sdk::arrow_array::StringArray>().unwrap();
        words.into_iter().next().unwrap().unwrap().to_owned()
    };
    assert_eq!([first(&found[0]), first(&found[1])], ["a", "b"]);
}

#[test]
fn rows_and_columns_that_are_wanted_are_read() {
    let piece = |ids: std::ops::Range<i64>| {
        let column = || Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef;
        vec![RecordBatch::try_from_iter([("a", column()), ("b", column())]).unwrap()]
    };
    let set =
        open("a.arrow", written("a.arrow", &[piece(0..10), piece(10..20), piece(20..30)], &[]).unwrap())
            .unwrap();
    assert_eq!(set.splits().len(), 1);
    assert_eq!(set.splits()[0].records, Some(30));
    let scan = ScanRequest {
        columns: Some(vec![vec![1]]),
        first_row: 15,
        limit: Some(7),
        rows: 4,
        ..ScanRequest::default()
    };
    let batches: Vec<RecordBatch> = set.scan(0, &scan).unwrap().map(Result::unwrap).collect();
    let values: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec())
        .collect();
    assert_eq!(values, (15..22).collect::<Vec<_>>());
    assert!(batches.iter().all(|batch| batch.num_rows() <= 4 && batch.num_columns() == 1));
}
