//! Tests that pyarrow reads the Parquet files that `ferry` writes, and that `ferry` reads pyarrow's
//! files.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::{TempDir, tempdir};
use tensorferry_parquet::Parquet;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::{MemoryContext, MemorySource, Target};
use tensorferry_tests::records::{self, Rows};
use tensorferry_tests::{Ferry, Outcome, args, python};

/// Returns files that pyarrow wrote with every codec, page version, encoding and kind of column.
fn pyarrow_files() -> (TempDir, Vec<PathBuf>) {
    let folder = tempdir().unwrap();
    python::script("parquet_make.py", [folder.path()]);
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 15);
    (folder, files)
}

fn rows_of(path: &Path) -> Rows {
    let source =
        MemorySource::file(path.file_name().unwrap().to_str().unwrap(), std::fs::read(path).unwrap());
    records::read(&Parquet, Arc::new(source), &MemoryContext::default()).unwrap()
}

/// Writes rows next to the file from which they were read.
fn written(path: &Path, rows: &Rows, options: &[(&str, &str)]) -> PathBuf {
    let target = Target::File("out.parquet".to_owned());
    let mut files = records::write(&Parquet, rows, &target, options).unwrap();
    let copy = path.with_extension("copy");
    std::fs::write(&copy, files.remove("out.parquet").unwrap()).unwrap();
    copy
}

fn same(pairs: &[PathBuf]) -> Outcome {
    python::script("parquet_same.py", pairs)
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn what_pyarrow_wrote_is_the_same_when_it_was_read_and_written() {
    let (_folder, files) = pyarrow_files();
    let codecs = ["snappy", "zstd", "gzip", "lz4", "brotli", "none"];
    let mut pairs = Vec::new();
    for (path, codec) in files.iter().zip(codecs.into_iter().cycle()) {
        let rows = rows_of(path);
        pairs.extend([path.clone(), written(path, &rows, &[("compression", codec)])]);
    }
    assert_eq!(same(&pairs).json(), 15);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn every_file_of_pyarrows_has_the_same_rows() {
    let (_folder, files) = pyarrow_files();
    let whole = |rows: &Rows| -> Vec<RecordBatch> { rows.splits.iter().flatten().cloned().collect() };
    let codecs: Vec<_> = files.iter().filter(|path| path.to_string_lossy().contains(".0.parquet")).collect();
    assert_eq!(codecs.len(), 12);
    // Omit the column with NaN, which does not equal itself.
    let kept: Vec<usize> = (0..20).filter(|&column| column != 5).collect();
    let of = |path| -> Vec<_> { whole(&rows_of(path)).iter().map(|b| b.project(&kept).unwrap()).collect() };
    let first = of(codecs[0]);
    assert_eq!(first.iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
    for path in &codecs[1..] {
        assert_eq!(of(path), first, "{}", path.display());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn partitions_are_read_as_pyarrow_reads_them() {
    let ferry = Ferry::new();
    let expected = python::script("parquet_partitions.py", [ferry.home()]).json();
    let seen = ferry.run(args!["inspect", ferry.home(), "--json"]).expect(0).json();
    let types: BTreeMap<&str, &str> = seen["schema"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["type"].as_str().unwrap()))
        .collect();
    assert_eq!(expected["types"], json!({"id": "int64", "year": "int32", "city": "string"}));
    assert_eq!(types, BTreeMap::from([("id", "int64"), ("year", "int32"), ("city", "utf8")]));
    let lines = ferry.run(args!["cat", ferry.home()]).expect(0).stdout;
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 8);
    assert_eq!(Value::from(rows), expected["rows"]);
    // The partitions can also be converted to one file. A single partition folder is read as a
    // table without partitions.
    let other = tempdir().unwrap();
    let one = other.path().join("one.parquet");
    ferry.convert(ferry.home(), &one, &["--strict", "--verify"]);
    let diff = ferry.run(args!["diff", ferry.home(), one]).expect(0);
    assert!(diff.stdout.starts_with("equal: 8 records, 3 columns"), "{diff}");
    let part = ferry.run(args!["cat", ferry.at("year=2023")]).expect(0);
    assert!(part.stdout.lines().count() > 1 && !part.stdout.contains("year"), "{part}");
}
