//! Helpers that generate files of rows, and that return the results of steps on rows.

use crate::Ferry;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The number of rows that [`mixed`] writes.
pub const MIXED: usize = 20_000;

/// Writes `rows.jsonl` with numbers, lists of fixed length, lists of varying length, and missing
/// values.
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

/// Writes rows with these IDs. Each row also contains half of its ID, a repeating word, and a list.
pub fn numbered(ferry: &Ferry, name: &str, ids: impl Iterator<Item = i64>) -> PathBuf {
    let line = |id: i64| {
        let list: Vec<i64> = (0..id % 4).map(|n| id + n).collect();
        let row = json!({"id": id, "half": 0.5 * id as f64, "word": format!("w{}", id % 7), "list": list});
        format!("{row}\n")
    };
    ferry.write(name, ids.map(line).collect::<String>())
}

/// Writes a folder of files with these numbers of rows. The IDs of the first file start at 0, the
/// IDs of the second file at 1000, and so on.
pub fn files_of(ferry: &Ferry, folder: &str, lengths: &[i64]) -> PathBuf {
    for (file, len) in (0..).zip(lengths) {
        numbered(ferry, &format!("{folder}/{file:03}.jsonl"), (0..*len).map(|row| 1000 * file + row));
    }
    ferry.at(folder)
}

/// Returns the rows that result from applying steps to an input.
#[track_caller]
pub fn through(ferry: &Ferry, input: &Path, steps: &[&str], options: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let mut options = options.to_vec();
    options.extend(steps.iter().flat_map(|step| ["--step", step]));
    ferry.convert(input, &output, &options);
    ferry.rows(&output)
}

/// Returns the `id` of each row.
pub fn ids(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

/// Returns the `id` of each row that results from applying steps to an input.
#[track_caller]
pub fn ids_through(ferry: &Ferry, input: &Path, steps: &[&str]) -> Vec<i64> {
    ids(&through(ferry, input, steps, &[]))
}
