//! Runs the SDK's conformance suite on this format.

use crate::common::{bytes, example, file, floats, frames, gzip, ints, sequence};
use std::collections::BTreeMap;
use tensorferry_proto::{Example, SequenceExample};
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::{Entry, Side};
use tensorferry_tfrecord::TfRecord;

fn examples() -> Vec<Example> {
    vec![
        example(&[("id", ints(&[1])), ("word", bytes(&[b"a\xff", b""])), ("x", floats(&[0.5, -1.5]))]),
        example(&[("id", ints(&[-2])), ("word", bytes(&[]))]),
        example(&[("id", ints(&[3])), ("x", floats(&[2.5]))]),
    ]
}

fn sequences() -> Vec<SequenceExample> {
    let steps = vec![ints(&[1, 2]), ints(&[]), ints(&[3])];
    vec![
        sequence(&[("id", ints(&[1]))], &[("steps", steps)]),
        sequence(&[("id", ints(&[2]))], &[("steps", vec![])]),
    ]
}

#[test]
fn conforms() {
    let plain = file(&examples());
    let samples = [
        Sample::file("a.tfrecord", plain.clone()).holding(&["id", "word", "x"]).of_rows(3),
        Sample::file("a.tfrecord.gz", gzip(&plain)).holding(&["id", "word", "x"]).of_rows(3),
        Sample::file("b.tfrecord", file(&sequences())).holding(&["id", "steps"]).of_rows(2),
        Sample::file("c.tfrecord", frames(&["no", "messages", ""])).of_rows(3),
    ];
    let report = check(&TfRecord, &samples);
    assert_eq!(report.rows, 11);
    assert!(report.damaged > 1000 && report.written > 80, "{report:?}");
}

#[test]
#[ignore = "takes seconds for each of many options"]
fn conforms_with_other_options() {
    let files = [("a-00000-of-00002", file(&examples())), ("a-00001-of-00002", Vec::new())];
    let files: BTreeMap<String, Vec<u8>> = files.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    let shards = Sample::set(Entry::Prefix("a".to_owned()), files).of_rows(3);
    let options = [
        ("compression", "gzip"),
        ("compression", "zlib"),
        ("compression", "snappy"),
        ("shards", "2"),
        ("max_shard_size", "9"),
    ];
    for (key, value) in options {
        let format = Preset::new(TfRecord).with(Side::Writer, key, value);
        let report = check(&format, std::slice::from_ref(&shards));
        assert!(report.written > 80, "{key}={value}: {report:?}");
    }
}
