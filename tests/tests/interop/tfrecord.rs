//! Tests that TensorFlow and `ferry` read the same contents from each other's TFRecord files.

use serde_json::{Value, json};
use std::path::PathBuf;
use tensorferry_tests::rows::{files_of, ids_through};
use tensorferry_tests::{Ferry, python};

const KINDS: [&str; 2] = ["example", "sequence"];
const CODECS: [&str; 4] = ["none", "gzip", "zlib", "snappy"];

/// Returns files written by TensorFlow with every codec.
fn made(ferry: &Ferry) -> Vec<PathBuf> {
    python::script("tfrecord_make.py", [ferry.home()]);
    let path = |kind, codec| ferry.at(format!("{kind}.{codec}.tfrecord"));
    KINDS.iter().flat_map(|kind| CODECS.map(|codec| path(kind, codec))).collect()
}

fn seen(paths: &[PathBuf]) -> Vec<Value> {
    let document = python::script("tfrecord_see.py", paths).json();
    paths.iter().map(|path| document[path.to_str().unwrap()].clone()).collect()
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn ferry_reads_what_tensorflow_writes() {
    let ferry = Ferry::new();
    let paths = made(&ferry);
    for (path, seen) in paths.iter().zip(seen(&paths)) {
        let records = seen["records"].as_array().unwrap();
        assert_eq!(records.len(), 200);
        assert!(ferry.rows(path) == *records, "{}", path.display());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn tensorflow_reads_what_ferry_writes() {
    let ferry = Ferry::new();
    let paths = made(&ferry);
    let mut written = Vec::new();
    for kind in KINDS {
        let from = ferry.at(format!("{kind}.none.tfrecord"));
        for codec in CODECS {
            let to = ferry.at(format!("{kind}.{codec}.out.tfrecord"));
            let codec = format!("compression={codec}");
            ferry.convert(&from, &to, &["-o", &codec, "--strict"]);
            written.push(to);
        }
    }
    let (before, after) = (seen(&paths), seen(&written));
    for ((path, before), after) in written.iter().zip(before).zip(after) {
        assert_eq!(before["parsed"], after["parsed"], "{}", path.display());
        assert!(before["records"] == after["records"], "{}", path.display());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn tensorflow_reads_shards_and_long_records() {
    let ferry = Ferry::new();
    let paths = made(&ferry);
    let to = ferry.at("example.gzip.shards");
    ferry.convert(&paths[0], &to, &["--to", "tfrecord", "-o", "shards=3", "-o", "compression=gzip"]);
    let shards: Vec<PathBuf> =
        (0..3).map(|n| ferry.at(format!("example.gzip.shards-{n:05}-of-00003"))).collect();
    let records: Vec<Value> =
        seen(&shards).iter().flat_map(|shard| shard["records"].as_array().unwrap().clone()).collect();
    assert_eq!(records.len(), 200);
    let mut ids: Vec<&str> = records
        .iter()
        .map(|r| r["features"]["feature"]["id"]["int64List"]["value"][0].as_str().unwrap())
        .collect();
    ids.sort_by_key(|id| id.parse::<u64>().unwrap());
    assert!(ids.iter().enumerate().all(|(n, id)| *id == n.to_string()));
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn of_a_key_that_comes_twice_both_take_the_last() {
    let ferry = Ferry::new();
    let input = ferry.at("twice.tfrecord");
    let seen = python::script("tfrecord_twice.py", [&input]).json();
    assert_eq!(Value::from(ferry.rows(&input)), seen["records"]);
    let output = ferry.at("twice.jsonl");
    ferry.convert(&input, &output, &["--strict", "--verify"]);
    let parsed = seen["parsed"].as_array().unwrap();
    let rows = ferry.rows(&output);
    assert_eq!((rows.len(), parsed.len()), (5, 5));
    for (row, parsed) in rows.iter().zip(parsed) {
        for name in ["x", "y"] {
            // After the earlier entries are dropped, each list has at most one value, so ferry
            // reads these columns as scalars.
            let values: Vec<Value> =
                row.get(name).filter(|value| !value.is_null()).cloned().into_iter().collect();
            assert_eq!(Value::from(values), parsed[name], "{row}");
        }
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn files_take_turns_as_in_tf_data() {
    let ferry = Ferry::new();
    let cases = [
        "5,1,4/2/2",
        "5,1,4/3/1",
        "5,1,4/8/3",
        "1,2,3,4,5,6/3/2",
        "7,7,7,7/4/7",
        "9,1,1,1,9/2/4",
        "300,2,200/2/64",
        // A file without records is skipped when its turn comes.
        "0,2,0,1/2/1",
        "3,0,0,4,2/2/2",
        "3,0,4,0,0,2/3/1",
        "0,0,0,5/3/2",
        "2,2,0/8/1",
        "0,0,1/2/1",
    ];
    let expected = python::script("tf_data_order.py", cases).json();
    for case in cases {
        let parts: Vec<&str> = case.split('/').collect();
        let lengths: Vec<i64> = parts[0].split(',').map(|len| len.parse().unwrap()).collect();
        let step = format!("interleave:{},block_length={}", parts[1], parts[2]);
        let order = ids_through(&ferry, &files_of(&ferry, case, &lengths), &[&step]);
        assert_eq!(json!(order), expected[case], "{case}");
    }
}
