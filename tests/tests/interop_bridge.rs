//! Records and tensors across formats, as TensorFlow and pyarrow see them.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::{Ferry, python};

const BYTES: [&str; 2] = ["--step", "tensors:column,strings=bytes"];

fn data() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("data.tfrecord");
    python::script("bridge_make.py", [&path]);
    (folder, path)
}

fn with<'a>(options: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    options.iter().chain(more).copied().collect()
}

#[test]
fn columns_are_what_parse_example_gives() {
    let ferry = Ferry::new();
    let (folder, path) = data();
    let same = |tensors: &Path| python::script("bridge_same.py", [&*path, tensors]).json();
    let output = folder.path().join("data.safetensors");
    ferry.convert(&path, &output, &with(&["--strict", "--verify"], &BYTES));
    // Eleven columns: five dense, three ragged (one of them strings), two of strings, one of lists of strings.
    assert_eq!(same(&output), json!({"columns": 11, "tensors": 20}));

    // A shape that the user gives.
    let schema = folder.path().join("schema.json");
    let printed = ferry.run(["inspect".as_ref(), path.as_os_str(), "--schema".as_ref()]).expect(0);
    let mut document = printed.json();
    let columns = document["columns"].as_array_mut().unwrap();
    let grid = columns.iter_mut().find(|column| column["name"] == "grid").unwrap();
    grid["shape"] = json!([2, 3]);
    std::fs::write(&schema, document.to_string()).unwrap();
    let output = folder.path().join("shaped.safetensors");
    let schema = format!("schema={}", schema.display());
    ferry.convert(&path, &output, &with(&["--strict", "--verify", "-i", &schema], &BYTES));
    let shapes = ferry.inspect(&output);
    let grid = shapes["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "grid").unwrap().clone();
    assert_eq!(grid["shape"], json!([500, 2, 3]));
    assert_eq!(same(&output), json!({"columns": 11, "tensors": 20}));
}

#[test]
fn messages_come_back_from_tensors() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    python::script("tfrecord_make.py", [folder.path()]);
    let seen = |paths: &[PathBuf]| -> Vec<Value> {
        let document = python::script("tfrecord_see.py", paths).json();
        paths.iter().map(|path| document[path.to_str().unwrap()].clone()).collect()
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for kind in ["example", "sequence"] {
        let path = folder.path().join(format!("{kind}.none.tfrecord"));
        let tensors = folder.path().join(format!("{kind}.safetensors"));
        let back = folder.path().join(format!("{kind}.none.back.tfrecord"));
        ferry.convert(&path, &tensors, &with(&["--strict", "--verify"], &BYTES));
        ferry.convert(&tensors, &back, &["--strict", "--verify"]);
        before.push(path);
        after.push(back);
    }
    for (before, after) in seen(&before).iter().zip(seen(&after)) {
        assert_eq!(before["records"].as_array().unwrap().len(), 200);
        assert!(before["records"] == after["records"]);
        assert_eq!(before["parsed"], after["parsed"]);
    }
}

#[test]
fn tables_come_back_from_tensors() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let [path, tensors, back] =
        ["a.parquet", "a.safetensors", "b.parquet"].map(|name| folder.path().join(name));
    python::script("bridge_parquet.py", ["make".as_ref(), path.as_os_str()]);
    ferry.convert(&path, &tensors, &with(&["--strict", "--verify"], &BYTES));
    ferry.convert(&tensors, &back, &["--strict", "--verify"]);
    let compared = python::script("bridge_parquet.py", ["same".as_ref(), path.as_os_str(), back.as_os_str()]);
    assert_eq!(compared.json(), json!(18));

    let [path, tensors] = ["lossy.parquet", "lossy.safetensors"].map(|name| folder.path().join(name));
    python::script("bridge_parquet.py", ["make".as_ref(), path.as_os_str()]);
    let said = ferry.convert(&path, &tensors, &with(&["--json"], &BYTES)).json();
    let losses: Vec<&str> =
        said["losses"].as_array().unwrap().iter().map(|loss| loss["what"].as_str().unwrap()).collect();
    assert_eq!(losses, ["price", "point"], "{said}");
    let found = ferry.inspect(&tensors);
    let shape = |name: &str| {
        let tensors = found["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == name).map(|tensor| tensor["shape"].clone())
    };
    assert_eq!(shape("price"), Some(json!([300])));
    assert_eq!(shape("point.x"), Some(json!([300])));
    assert_eq!(shape("point.x.valid"), Some(json!([300])));
    assert_eq!(shape("point.y.row_splits"), Some(json!([301])));
}
