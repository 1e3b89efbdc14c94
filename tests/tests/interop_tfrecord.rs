//! TensorFlow and `ferry` see the same in each other's TFRecord files.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::{Ferry, python};

const KINDS: [&str; 2] = ["example", "sequence"];
const CODECS: [&str; 4] = ["none", "gzip", "zlib", "snappy"];

/// What TensorFlow writes, with every codec.
fn made() -> (TempDir, Vec<PathBuf>) {
    let folder = tempdir().unwrap();
    python::script("tfrecord_make.py", [folder.path()]);
    let paths = KINDS
        .iter()
        .flat_map(|kind| CODECS.map(|codec| folder.path().join(format!("{kind}.{codec}.tfrecord"))));
    let paths = paths.collect();
    (folder, paths)
}

fn seen(paths: &[PathBuf]) -> Vec<Value> {
    let document = python::script("tfrecord_see.py", paths).json();
    paths.iter().map(|path| document[path.to_str().unwrap()].clone()).collect()
}

fn shown(ferry: &Ferry, path: &Path) -> Vec<Value> {
    let outcome = ferry.run(["cat".as_ref(), path.as_os_str()]).expect(0);
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn ferry_reads_what_tensorflow_writes() {
    let ferry = Ferry::new();
    let (_folder, paths) = made();
    for (path, seen) in paths.iter().zip(seen(&paths)) {
        let records = seen["records"].as_array().unwrap();
        assert_eq!(records.len(), 200);
        assert!(shown(&ferry, path) == *records, "{}", path.display());
    }
}

#[test]
fn tensorflow_reads_what_ferry_writes() {
    let ferry = Ferry::new();
    let (folder, paths) = made();
    let mut written = Vec::new();
    for kind in KINDS {
        let from = folder.path().join(format!("{kind}.none.tfrecord"));
        for codec in CODECS {
            let to = folder.path().join(format!("{kind}.{codec}.out.tfrecord"));
            let codec = format!("codec={codec}");
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
fn tensorflow_reads_shards_and_long_records() {
    let ferry = Ferry::new();
    let (folder, paths) = made();
    let to = folder.path().join("example.gzip.shards");
    ferry.convert(&paths[0], &to, &["--to", "tfrecord", "-o", "shards=3", "-o", "codec=gzip"]);
    let shards: Vec<PathBuf> =
        (0..3).map(|n| folder.path().join(format!("example.gzip.shards-{n:05}-of-00003"))).collect();
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
fn of_a_key_that_comes_twice_both_take_the_last() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let input = folder.path().join("twice.tfrecord");
    let seen = python::script("tfrecord_twice.py", [&input]).json();
    assert_eq!(Value::from(shown(&ferry, &input)), seen["records"]);
    let output = folder.path().join("twice.jsonl");
    ferry.convert(&input, &output, &["--strict", "--verify"]);
    let parsed = seen["parsed"].as_array().unwrap();
    let rows = shown(&ferry, &output);
    assert_eq!((rows.len(), parsed.len()), (5, 5));
    for (row, parsed) in rows.iter().zip(parsed) {
        for name in ["x", "y"] {
            // One value each at most, once the entries before the last are gone: no lists.
            let values: Vec<Value> =
                row.get(name).filter(|value| !value.is_null()).cloned().into_iter().collect();
            assert_eq!(Value::from(values), parsed[name], "{row}");
        }
    }
}
