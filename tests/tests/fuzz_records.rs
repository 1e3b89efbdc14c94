//! The readers of rows come back from whatever bytes they are given.
#![expect(clippy::unwrap_used, reason = "tests")]

use ferry_jsonl::JsonLines;
use ferry_parquet::Parquet;
use std::sync::Arc;
use tensorferry_sdk::{MemoryContext, MemorySource, Target};
use tensorferry_tests::{fuzz, records};

/// Lines with a column of every kind.
const LINES: &str = r#"{"id": 1, "name": "a", "list": [0.5, null], "deep": {"a": [{"b": true}], "c": "NaN"}}
{"id": -9223372036854775808, "name": "a", "list": [], "deep": {"a": null, "c": 1e300}}
{"id": 3, "name": "a", "list": [1], "deep": null, "only": "\u00e4\n"}
"#;

#[test]
fn survives_mutated_parquet() {
    let source = Arc::new(MemorySource::file("in.jsonl", LINES.repeat(50)));
    let rows = records::read(&JsonLines, source, &MemoryContext::default()).unwrap();
    let made = |options: &[(&str, &str)]| {
        let target = Target::File("out.parquet".to_owned());
        let mut files = records::write(&Parquet, &rows, &target, options).unwrap();
        files.remove("out.parquet").unwrap()
    };
    let mut seeds = Vec::new();
    for compression in ["none", "snappy", "gzip", "zstd", "lz4", "brotli"] {
        for dictionary in ["true", "false"] {
            seeds.push(made(&[("compression", compression), ("dictionary", dictionary)]));
        }
    }
    for seed in &seeds {
        assert!(fuzz::read_records(&Parquet, "in.parquet", seed), "a seed is not read as it stands");
    }
    fuzz::drive("parquet", &seeds, |bytes| fuzz::read_records(&Parquet, "in.parquet", bytes));
}

#[test]
fn survives_mutated_lines() {
    let seeds = [LINES.as_bytes().to_vec(), LINES.replace('\n', "\r\n").into_bytes()];
    fuzz::drive("jsonl", &seeds, |bytes| fuzz::read_records(&JsonLines, "in.jsonl", bytes));
}
