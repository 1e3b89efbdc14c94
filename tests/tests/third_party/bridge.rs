//! Tests of conversions between records and tensors of third-party formats.

use crate::outside;
use serde_json::{Value, json};
use tensorferry_tests::rows::MIXED as ROWS;
use tensorferry_tests::{Ferry, fixtures, rows, seen};

#[test]
#[ignore = "builds crates out of the workspace"]
fn strings_say_how_they_can_be_carried() {
    let ferry = Ferry::new();
    let path = fixtures::folder().join("tfrecord/example_plain/data.tfrecord");
    let output = ferry.at("a.safetensors");
    let dry = ferry.try_convert(&path, &output, &["--dry-run", "--json"]).expect(0);
    dry.clone().says(&["lost: tensor (2) \"img\"", "strings=bytes"]);
    assert_eq!(dry.json()["tensors"], json!(2));
    ferry.try_convert(&path, &output, &["--strict"]).expect(3).says(&["\"img\""]);
    assert_eq!(ferry.names(), [""; 0]);
    let bytes = ["--step", "tensors:column,strings=bytes"];
    ferry.convert(&path, &output, &[&bytes[..], &["--strict"]].concat());
    // A format that supports strings keeps them unchanged.
    let ferry_with_trial = Ferry::new();
    ferry_with_trial.add_plugin(&outside::library("trial"));
    let [trial, back] = ferry.paths(["a.trial", "back.tfrecord"]);
    ferry_with_trial.convert(&path, &trial, &["--verify"]);
    assert_eq!(ferry_with_trial.shapes(&trial)["s"], json!(["STR", [20, 2]]));
    ferry_with_trial.convert(&trial, &back, &["--verify"]);
    assert_eq!(ferry.rows(&back), ferry.rows(&path));
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn tensors_of_an_outside_format_are_columns() {
    let ferry = Ferry::new();
    ferry.add_plugin(&outside::library("trial"));
    let path = rows::mixed(&ferry);
    let [all, back, one, column] = ferry.paths(["rows.trial", "back.jsonl", "id.trial", "id.jsonl"]);
    ferry.convert(&path, &all, &["--verify", "--strict"]);
    let shapes = ferry.shapes(&all);
    assert_eq!(
        (&shapes["pair"], &shapes["maybe.valid"]),
        (&json!(["I64", [ROWS, 2]]), &json!(["BOOL", [ROWS]]))
    );
    ferry.convert(&all, &back, &["--verify", "--strict"]);
    assert!(ferry.rows(&back) == ferry.rows(&path));
    // Without metadata from a conversion, the name and shape of a tensor show that it is a column.
    ferry.convert(&path, &one, &["--step", "map:select,columns=id", "--step", "drop_metadata:*"]);
    ferry.convert(&one, &column, &[]);
    let ids: Vec<Value> = (0..ROWS).map(|id| json!({"id": id})).collect();
    assert!(ferry.rows(&column) == ids);
}

/// Tests that the attributes of tensors, for which rows have no place, are reported as lost.
#[test]
#[ignore = "builds crates out of the workspace"]
fn attributes_of_tensors_are_lost_in_rows_and_said() {
    let ferry = Ferry::new();
    ferry.add_plugin(&crate::c::nrrd("c", ""));
    let header = "NRRD0004\ntype: uchar\ndimension: 2\nsizes: 3 2\nencoding: raw\nspacings: 0.5 nan\nunits: \"mm\" \"s\"\n\nabcdef";
    let input = ferry.write("a.nrrd", header);
    for (name, step) in [("rows.parquet", "records:row"), ("tensors.jsonl", "records:tensor")] {
        let output = ferry.at(name);
        let outcome = ferry.convert(&input, &output, &["--step", step, "--json"]);
        let lost: Vec<String> = seen::lost(&outcome.json(), "attribute").into_iter().collect();
        assert_eq!(lost, ["data: spacings", "data: units"], "{outcome}");
        ferry
            .try_convert(&input, &output, &["--force", "--step", step, "--strict"])
            .expect(3)
            .says(&["data: spacings"]);
    }
}
