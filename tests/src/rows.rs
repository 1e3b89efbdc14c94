//! Files of rows made on the spot, and what comes out of steps on rows.

use crate::Ferry;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Rows of [`mixed`].
pub const MIXED: usize = 20_000;

/// Writes `rows.jsonl`: numbers, lists of one length, lists of any, and values that are missing.
pub fn mixed(ferry: &Ferry) -> PathBuf {
    let line = |id: usize| {
        let list: Vec<usize> = (0..id % 4).map(|n| id + n).collect();
        let maybe = if id.is_multiple_of(3) { Value::Null } else { json!(id as f64 / 2.0) };
        let deep: Vec<Vec<usize>> = (0..id % 3).map(|n| vec![n; n]).collect();
        let row = json!({"id": id, "pair": [id, 7], "list": list, "maybe": maybe, "deep": deep});
        format!("{row}\n")
    };
    ferry.write("rows.jsonl", (0..MIXED).map(line).collect::<String>())
}

/// Writes rows of these numbers: each with its half, a word that comes again, and a list.
pub fn numbered(ferry: &Ferry, name: &str, ids: impl Iterator<Item = i64>) -> PathBuf {
    let line = |id: i64| {
        let list: Vec<i64> = (0..id % 4).map(|n| id + n).collect();
        let row = json!({"id": id, "half": 0.5 * id as f64, "word": format!("w{}", id % 7), "list": list});
        format!("{row}\n")
    };
    ferry.write(name, ids.map(line).collect::<String>())
}

/// Writes a folder with a file of so many rows each: those of the first are numbered from 0, those of the
/// second from 1000.
pub fn files_of(ferry: &Ferry, folder: &str, lengths: &[i64]) -> PathBuf {
    for (file, len) in (0..).zip(lengths) {
        numbered(ferry, &format!("{folder}/{file:03}.jsonl"), (0..*len).map(|row| 1000 * file + row));
    }
    ferry.at(folder)
}

/// The rows that come out of steps.
#[track_caller]
pub fn through(ferry: &Ferry, input: &Path, steps: &[&str], options: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let mut options = options.to_vec();
    options.extend(steps.iter().flat_map(|step| ["--step", step]));
    ferry.convert(input, &output, &options);
    ferry.rows(&output)
}

/// The `id` of each row.
pub fn ids(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

/// The `id`s of what comes out of steps.
#[track_caller]
pub fn ids_through(ferry: &Ferry, input: &Path, steps: &[&str]) -> Vec<i64> {
    ids(&through(ferry, input, steps, &[]))
}
