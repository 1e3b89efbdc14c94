//! Tests that the Parquet reader handles arbitrary bytes without a panic.

use crate::drive;
use tensorferry_tests::Ferry;

/// Lines with columns of every kind.
const LINES: &str = r#"{"id": 1, "name": "a", "list": [0.5, null], "deep": {"a": [{"b": true}], "c": "NaN"}}
{"id": -9223372036854775808, "name": "a", "list": [], "deep": {"a": null, "c": 1e300}}
{"id": 3, "name": "a", "list": [1], "deep": null, "only": "\u00e4\n"}
"#;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_parquet() {
    let ferry = Ferry::new();
    let lines = ferry.write("in.jsonl", LINES.repeat(50));
    let mut seeds = Vec::new();
    for compression in ["none", "snappy", "gzip", "zstd", "lz4", "brotli"] {
        for dictionary in ["true", "false"] {
            let output = ferry.at(format!("{compression}.{dictionary}.parquet"));
            let [compression, dictionary] = [("compression", compression), ("dictionary", dictionary)]
                .map(|(key, value)| format!("{key}={value}"));
            ferry.convert(&lines, &output, &["-o", &compression, "-o", &dictionary]);
            seeds.push(std::fs::read(output).unwrap());
        }
    }
    drive("parquet", &seeds);
}
