//! Runs the SDK's conformance suite on this format.

use crate::written;
use std::sync::Arc;
use tensorferry_arrow::Arrow;
use tensorferry_sdk::Side;
use tensorferry_sdk::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tensorferry_sdk::conformance::{Preset, Sample, check};

fn piece(ids: std::ops::Range<i64>) -> Vec<RecordBatch> {
    let words: StringArray = ids.clone().map(|id| (id % 2 > 0).then(|| format!("word {id}"))).collect();
    let columns: [(&str, ArrayRef, bool); 2] =
        [("id", Arc::new(Int64Array::from_iter_values(ids)), true), ("word", Arc::new(words), true)];
    vec![RecordBatch::try_from_iter_with_nullable(columns).unwrap()]
}

fn sample(name: &str, given: &[(&str, &str)]) -> Sample {
    let bytes = written(name, &[piece(0..3), piece(3..7)], given).unwrap();
    Sample::file(name, bytes).holding(&["id", "word"]).of_rows(7)
}

#[test]
fn files_and_streams_conform() {
    let samples =
        [sample("a.arrow", &[]), sample("a.arrows", &[]), sample("z.arrow", &[("compression", "zstd")])];
    let report = check(&Arrow, &samples);
    assert_eq!(report.rows, 21);
    assert!(report.damaged > 1000 && report.written > 100, "{report:?}");
}

#[test]
#[ignore = "takes seconds for each of many options"]
fn conforms_with_other_options() {
    for (key, value) in [
        ("form", "stream"),
        ("compression", "lz4"),
        ("compression", "zstd"),
        ("shards", "2"),
        ("max_shard_size", "1"),
    ] {
        let report = check(&Preset::new(Arrow).with(Side::Writer, key, value), &[sample("a.arrow", &[])]);
        assert!(report.written > 100, "{key}={value}: {report:?}");
    }
}
