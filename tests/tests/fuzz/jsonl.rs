//! Tests that the JSON lines reader handles arbitrary bytes without a panic.

use crate::drive;

/// Lines with columns of every kind.
const LINES: &str = r#"{"id": 1, "name": "a", "list": [0.5, null], "deep": {"a": [{"b": true}], "c": "NaN"}}
{"id": -9223372036854775808, "name": "a", "list": [], "deep": {"a": null, "c": 1e300}}
{"id": 3, "name": "a", "list": [1], "deep": null, "only": "\u00e4\n"}
"#;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_lines() {
    let seeds = [LINES.as_bytes().to_vec(), LINES.replace('\n', "\r\n").into_bytes()];
    drive("jsonl", &seeds);
}
