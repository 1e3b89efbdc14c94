//! Runs the SDK's conformance suite on this format.

use crate::common::file;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_parquet::Parquet;
use tensorferry_sdk::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::{Entry, Side};
use tensorferry_test_kit::rows::rows;

fn piece(ids: std::ops::Range<i64>) -> RecordBatch {
    let words: StringArray = ids.clone().map(|id| (id % 2 > 0).then(|| format!("word {id}"))).collect();
    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from_iter_values(ids)), Arc::new(words)];
    let [id, word] = columns;
    rows(vec![("id", id), ("word", word)])
}

/// The sample has two row groups. Without statistics, the file is so short that the suite can
/// damage every byte of it.
fn sample() -> Sample {
    let bytes = file(&[piece(0..3), piece(3..7)], &[("statistics", "false")]);
    Sample::file("a.parquet", bytes).holding(&["id", "word"]).of_rows(7)
}

#[test]
fn conforms() {
    let report = check(&Parquet, &[sample()]);
    assert_eq!(report.rows, 7);
    assert!(report.damaged > 1000 && report.written > 100, "{report:?}");
}

#[test]
#[ignore = "takes seconds for each of many options"]
fn conforms_with_other_options() {
    let schema = piece(0..1).schema();
    let empty = crate::common::write(&schema, &[], &[]).unwrap().files.pop_first().unwrap().1;
    let files = [("a.parquet", file(&[piece(0..2)], &[])), ("b.parquet", empty)];
    let files: BTreeMap<String, Vec<u8>> = files.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    let folder = Sample::set(Entry::Folder, files).of_rows(2);
    let options = [
        ("compression", "none"),
        ("compression", "zstd"),
        ("dictionary", "true"),
        ("shards", "2"),
        ("max_shard_size", "1"),
    ];
    for (key, value) in options {
        let format = Preset::new(Parquet).with(Side::Writer, key, value);
        let report = check(&format, std::slice::from_ref(&folder));
        assert!(report.written > 100, "{key}={value}: {report:?}");
    }
}
