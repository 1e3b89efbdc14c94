//! Checks the files that TensorFlow wrote against their `expected.json` files.

use crate::common::{self, all_rows, count_rows, lines, open, open_lines, threads};
use arrow_array::Array;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use tensorferry_sdk::{ErrorKind, MemorySource, hex};
use tensorferry_test_kit::fixtures::{self, expected, files_below, sha256};

/// Returns the name, the folder and the expected result of each case.
fn cases() -> Vec<(String, PathBuf, Value)> {
    let cases = fixtures::cases("tfrecord", "").into_iter().map(|path| {
        let expected = expected(&path);
        (expected["case"].as_str().unwrap().to_owned(), path, expected)
    });
    let cases: Vec<_> = cases.collect();
    assert_eq!(cases.len(), 14);
    cases
}

/// Returns the files of a case, in memory.
fn folder(path: &Path) -> MemorySource {
    MemorySource::folder(files_below(path))
}

/// The option that restricts the input of a case to its data files.
const FILES: (&str, &str) = ("files", "data*");

/// Converts a feature from protobuf's JSON mapping to the form that the expectations use.
fn feature(feature: &Value) -> Value {
    let Some((kind, list)) = feature.as_object().unwrap().iter().next() else { return json!({"kind": null}) };
    let values: Vec<Value> = list.get("value").and_then(Value::as_array).cloned().unwrap_or_default();
    let (kind, values): (&str, Vec<Value>) = match kind.as_str() {
        "int64List" => (
            "int64_list",
            values.iter().map(|v| v.as_str().unwrap().parse::<i64>().unwrap().into()).collect(),
        ),
        "floatList" => ("float_list", values.iter().map(|v| hex(&float(v).to_le_bytes()).into()).collect()),
        _ => (
            "bytes_list",
            values.iter().map(|v| hex(&STANDARD.decode(v.as_str().unwrap()).unwrap()).into()).collect(),
        ),
    };
    json!({"kind": kind, "n": values.len(), "values": values})
}

fn float(value: &Value) -> f32 {
    match value.as_str() {
        Some("NaN") => f32::NAN,
        Some("Infinity") => f32::INFINITY,
        Some(_) => f32::NEG_INFINITY,
        // Parsing returns the `f32` that is nearest to the printed number.
        None => value.to_string().parse().unwrap(),
    }
}

fn features(map: &Value) -> Value {
    let map = map.get("feature").and_then(Value::as_object).cloned().unwrap_or_default();
    Value::Object(map.iter().map(|(name, value)| (name.clone(), feature(value))).collect::<Map<_, _>>())
}

fn lists(map: &Value) -> Value {
    let map = map.get("featureList").and_then(Value::as_object).cloned().unwrap_or_default();
    let list = |list: &Value| {
        list.get("feature")
            .and_then(Value::as_array)
            .map_or(json!([]), |steps| steps.iter().map(feature).collect())
    };
    Value::Object(map.iter().map(|(name, value)| (name.clone(), list(value))).collect::<Map<_, _>>())
}

#[test]
fn records_are_shown_as_they_are() {
    for (case, path, expected) in cases() {
        let set = open_lines(folder(&path), &[FILES]).unwrap();
        let (lines, error) = lines(&*set);
        if expected["expect"] == "error" {
            let error = error.unwrap_or_else(|| panic!("{case} is read"));
            let reported = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{case}: {reported}");
            let before = expected["records_before_error"].as_u64().unwrap();
            assert_eq!(lines.len() as u64, before, "{case}: {reported}");
            let parts = ["data.tfrecord", &format!("record {before}"), "offset"];
            assert!(parts.iter().all(|part| reported.contains(part)), "{case}: {reported}");
            continue;
        }
        assert!(error.is_none(), "{case}: {error:?}");
        let records = expected["records"].as_array().unwrap();
        assert_eq!(lines.len(), records.len(), "{case}");
        for (line, record) in lines.iter().zip(records) {
            if let Some(expected) = record.get("features") {
                assert_eq!(&features(&line["features"]), expected, "{case}: {line}");
            } else if let Some(expected) = record.get("feature_lists") {
                assert_eq!(&lists(&line["featureLists"]), expected, "{case}: {line}");
                assert_eq!(features(&line["context"]), record["context"], "{case}: {line}");
            } else {
                let raw = STANDARD.decode(line["raw"].as_str().unwrap()).unwrap();
                assert_eq!(sha256(&raw), record["sha256"].as_str().unwrap(), "{case}");
            }
        }
    }
}

#[test]
fn rows_are_read_or_refused() {
    for (case, path, expected) in cases() {
        for count in [1, 3] {
            let is_error = expected["expect"] == "error";
            if is_error || case == "example_type_changes" {
                let error = common::refused(folder(&path), &[FILES], &threads(count));
                assert_eq!(error.kind(), ErrorKind::Malformed, "{case}");
                let reported = error.to_string();
                let parts = ["int64_list", "float_list", "record 1", "column \"a\"", "data.tfrecord"];
                assert!(is_error || parts.iter().all(|part| reported.contains(part)), "{reported}");
                continue;
            }
            let set = open(folder(&path), &[FILES], &threads(count)).unwrap();
            let rows = count_rows(&all_rows(&*set));
            assert_eq!(rows as u64, expected["n_records"].as_u64().unwrap(), "{case}");
            let known: Option<u64> = set.splits().iter().map(|split| split.records).sum();
            assert!(known.is_none_or(|known| known == rows as u64), "{case}");
        }
    }
}

#[test]
fn states_of_a_feature_are_told_apart() {
    let set = open(folder(&fixtures::cases("tfrecord", "example_ragged_missing")[0]), &[FILES], &threads(1))
        .unwrap();
    let schema = set.schema();
    let types: Vec<String> =
        schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    assert_eq!(types, ["a List(Int64)", "b List(Float32)", "c List(Binary)", "d Null"]);
    let batch = all_rows(&*set).remove(0);
    let nulls = |column: usize| {
        let array = batch.column(column);
        (0..7).map(|row| array.is_null(row)).collect::<Vec<_>>()
    };
    assert_eq!(nulls(0), [false, false, true, true, false, true, true]);
    assert_eq!(nulls(1), [true, false, false, true, true, true, true]);
    assert_eq!(nulls(2), [true, true, true, true, false, true, true]);
    let a = arrow_array::cast::as_list_array(batch.column(0));
    assert_eq!(a.value_offsets(), [0, 1, 1, 1, 1, 51, 51, 51]);
    let losses = set.losses().unwrap();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert_eq!(losses[0].what, "d");
}

#[test]
fn nothing_is_lost_before_the_damage() {
    let mut seen = 0;
    for (case, path, expected) in cases().into_iter().filter(|(_, _, expected)| expected["expect"] == "error")
    {
        let set =
            open(folder(&path), &[FILES, ("on_error", "skip"), ("decode", "example")], &threads(2)).unwrap();
        let rows = count_rows(&all_rows(&*set));
        // If only a record's data is damaged, the frames after it can still be found.
        let before = expected["records_before_error"].as_u64().unwrap();
        let expected = if case == "bad_flip_data" { 19 } else { before };
        assert_eq!(rows as u64, expected, "{case}");
        assert_eq!(lines(&*set).0.len() as u64, expected, "{case}");
        let skipped = set.skipped();
        assert_eq!(skipped.len(), 1, "{case}: {skipped:?}");
        assert_eq!(skipped[0].record, Some(before), "{case}: {skipped:?}");
        assert!(!skipped[0].why.is_empty());
        seen += 1;
    }
    assert_eq!(seen, 6);
}
