//! A dataset of forty record files in five folders, with a manifest that converts the files to ten
//! tables.

use crate::tfrecords::{Feature, example, file};
use crate::zoo::Zoo;
use serde_json::Value;
use std::collections::BTreeMap;

/// The number of folders.
pub const FOLDERS: i64 = 5;
/// The number of files in each folder.
pub const FILES: i64 = 8;
/// The number of rows in each file.
pub const ROWS: i64 = 40;
/// The number of outputs, each of which is created from four files.
pub const UNITS: u64 = 10;
pub const MANIFEST: &str = "[defaults]\nverify = true\n[[dataset]]\nname = \"d\"\nroot = \"in\"\n\
                        output = \"out/{parent}/part-{group}.parquet\"\ngroup = 4\n";

/// Returns the name of a file in a folder.
pub fn name(folder: i64, number: i64) -> String {
    format!("in/s{folder}/{number}.tfrecord")
}

/// Returns the ids of the rows in a file.
pub fn ids(folder: i64, number: i64) -> std::ops::Range<i64> {
    let first = (folder * FILES + number) * ROWS;
    first..first + ROWS
}

/// Returns a file whose rows have these ids and the features from `more`.
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

/// Creates forty files in five folders. The files in one folder have a feature that all other files
/// lack.
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

/// Returns the rows of all outputs by ID. Panics if an ID occurs twice.
pub fn read_all(zoo: &Zoo) -> BTreeMap<i64, Value> {
    let mut found = BTreeMap::new();
    for output in zoo.outputs().keys() {
        let path = zoo.path("out").join(output);
        for row in zoo.ferry.rows(&path) {
            let id = row["id"].as_i64().unwrap();
            assert!(found.insert(id, row).is_none(), "row {id} occurs twice, again in {}", path.display());
        }
    }
    found
}

/// Checks that every row of [`dataset`] occurs exactly once, with the correct values.
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
