//! A data set is forty files of records in five folders, with a manifest that makes ten tables of them.

use crate::tfrecords::{Feature, example, file};
use crate::zoo::Zoo;
use serde_json::Value;
use std::collections::BTreeMap;

/// How many folders there are.
pub const FOLDERS: i64 = 5;
/// How many files each has.
pub const FILES: i64 = 8;
/// How many rows each of those has.
pub const ROWS: i64 = 40;
/// Of four files each.
pub const UNITS: u64 = 10;
/// The manifest.
pub const MANIFEST: &str = "[defaults]\nverify = true\n[[dataset]]\nname = \"d\"\nroot = \"in\"\n\
                        output = \"out/{parent}/part-{group}.parquet\"\ngroup = 4\n";

/// The name of a file.
pub fn name(folder: i64, number: i64) -> String {
    format!("in/s{folder}/{number}.tfrecord")
}

/// The numbers of its rows.
pub fn ids(folder: i64, number: i64) -> std::ops::Range<i64> {
    let first = (folder * FILES + number) * ROWS;
    first..first + ROWS
}

/// A file whose rows have these numbers, and what `more` has of each.
pub fn rows(ids: impl Iterator<Item = i64>, more: impl Fn(i64) -> Vec<(&'static str, Feature)>) -> Vec<u8> {
    file(ids.map(|id| {
        let list = (0..id % 3).map(|n| id + n).collect();
        let mut features = vec![
            ("id", Feature::Ints(vec![id])),
            ("word", Feature::Bytes(vec![format!("w{}", id % 7).into_bytes()])),
            ("list", Feature::Ints(list)),
        ];
        features.extend(more(id));
        example(&features)
    }))
}

/// Forty files in five folders; those of one folder have a feature that the others lack.
pub fn dataset() -> Zoo {
    let zoo = Zoo::new();
    zoo.manifest(MANIFEST);
    for folder in 0..FOLDERS {
        for number in 0..FILES {
            let more = |id: i64| {
                if folder == 3 { vec![("extra", Feature::Floats(vec![0.5, id as f32]))] } else { Vec::new() }
            };
            zoo.write(&name(folder, number), &rows(ids(folder, number), more));
        }
    }
    zoo
}

/// The rows of every output, by their numbers; none may be there twice.
pub fn read_all(zoo: &Zoo) -> BTreeMap<i64, Value> {
    let mut found = BTreeMap::new();
    for output in zoo.outputs().keys() {
        let path = zoo.path("out").join(output);
        for row in zoo.ferry.rows(&path) {
            let id = row["id"].as_i64().unwrap();
            assert!(found.insert(id, row).is_none(), "row {id} is there twice, again in {}", path.display());
        }
    }
    found
}

/// Expects every row of [`dataset`], each once, with what it is made of.
pub fn check_rows(zoo: &Zoo) {
    let found = read_all(zoo);
    assert_eq!(found.len() as i64, FOLDERS * FILES * ROWS);
    for (id, row) in found {
        let list: Vec<i64> = (0..id % 3).map(|n| id + n).collect();
        assert_eq!(row["list"], serde_json::json!(list), "{row}");
        let is_extra = id / (FILES * ROWS) == 3;
        let extra = if is_extra { serde_json::json!([0.5, id as f64]) } else { Value::Null };
        assert_eq!(row["extra"], extra, "{row}");
    }
}
