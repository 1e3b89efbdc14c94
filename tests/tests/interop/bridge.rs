//! Tests that TensorFlow and pyarrow read the same values after conversions between records and
//! tensors.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tensorferry_tests::{Ferry, args, python};

const BYTES: [&str; 2] = ["--step", "tensors:column,strings=bytes"];

fn with<'a>(options: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    options.iter().chain(more).copied().collect()
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn columns_are_what_parse_example_gives() {
    let ferry = Ferry::new();
    let path = ferry.at("data.tfrecord");
    python::script("bridge_make.py", [&path]);
    let same = |tensors: &Path| python::script("bridge_same.py", [&*path, tensors]).json();
    let output = ferry.at("data.safetensors");
    ferry.convert(&path, &output, &with(&["--strict", "--verify"], &BYTES));
    // The file has eleven columns: five dense, three ragged (one of them with strings), two with
    // strings, and one with lists of strings.
    assert_eq!(same(&output), json!({"columns": 11, "tensors": 20}));

    // A schema file sets the shape.
    let schema = ferry.at("schema.json");
    let printed = ferry.run(args!["inspect", path, "--schema"]).expect(0);
    let mut document = printed.json();
    let columns = document["columns"].as_array_mut().unwrap();
    let grid = columns.iter_mut().find(|column| column["name"] == "grid").unwrap();
    grid["shape"] = json!([2, 3]);
    std::fs::write(&schema, document.to_string()).unwrap();
    let output = ferry.at("shaped.safetensors");
    let schema = format!("schema={}", schema.display());
    ferry.convert(&path, &output, &with(&["--strict", "--verify", "-i", &schema], &BYTES));
    let shapes = ferry.inspect(&output);
    let grid = shapes["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "grid").unwrap().clone();
    assert_eq!(grid["shape"], json!([500, 2, 3]));
    assert_eq!(same(&output), json!({"columns": 11, "tensors": 20}));
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn messages_come_back_from_tensors() {
    let ferry = Ferry::new();
    python::script("tfrecord_make.py", [ferry.home()]);
    let seen = |paths: &[PathBuf]| -> Vec<Value> {
        let document = python::script("tfrecord_see.py", paths).json();
        paths.iter().map(|path| document[path.to_str().unwrap()].clone()).collect()
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for kind in ["example", "sequence"] {
        let path = ferry.at(format!("{kind}.none.tfrecord"));
        let tensors = ferry.at(format!("{kind}.safetensors"));
        let back = ferry.at(format!("{kind}.none.back.tfrecord"));
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
#[ignore = "installs torch and tensorflow from PyPI"]
fn tables_come_back_from_tensors() {
    let ferry = Ferry::new();
    let [path, tensors, back] = ferry.paths(["a.parquet", "a.safetensors", "b.parquet"]);
    python::script("bridge_parquet.py", args!["make", path]);
    ferry.convert(&path, &tensors, &with(&["--strict", "--verify"], &BYTES));
    ferry.convert(&tensors, &back, &["--strict", "--verify"]);
    let compared = python::script("bridge_parquet.py", args!["same", path, back]);
    assert_eq!(compared.json(), json!(18));

    let [path, tensors] = ferry.paths(["lossy.parquet", "lossy.safetensors"]);
    python::script("bridge_parquet.py", args!["make", path]);
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
