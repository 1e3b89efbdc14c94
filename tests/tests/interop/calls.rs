//! Tests of checkpoints whose pickles call functions, in every container and pickle protocol. Each
//! call leaves a marker when it runs. `ferry` must not run any call, must list all of them, and
//! must read the tensors next to them. Python runs all calls, which shows that the files work as
//! attacks.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::{Facts, inspected};
use tensorferry_tests::{Ferry, args, python};

/// The number of cases. Each protocol from 0 to 5 has eleven containers with tensors next to the
/// calls, and values that are unknown without their calls.
const CASES: usize = 6 * 11 + 8 * 4 + 9 + 10;

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn no_call_is_made_and_all_are_told() {
    let ferry = Ferry::new();
    let files = ferry.at("files");
    let cases = python::script("make_calls.py", [&files]).json();
    let list = ferry.write("cases.json", cases.to_string());
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), CASES);

    let mut copies = Vec::new();
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let input = Path::new(case["input"].as_str().unwrap());
        if case["refused"] == true {
            refused(&ferry, input);
        } else {
            let outputs = ferry.at(name);
            std::fs::create_dir(&outputs).unwrap();
            told(&ferry, case, input, &outputs);
            copies.push(json!({
                "loads": [["torch", outputs.join("copy.pt")]], "markers": [], "refused": false,
            }));
        }
        assert_eq!(files_below(&files.join("markers")), Vec::<std::path::PathBuf>::new(), "{name}");
    }

    // The files that ferry writes for PyTorch do not run any calls.
    let copied = ferry.write("copies.json", Value::from(copies).to_string());
    assert_eq!(python::script("run_calls.py", [&copied]).json(), json!([]));
    assert_eq!(files_below(&files.join("markers")).len(), 0);

    // Python runs the calls in the files that ferry read.
    assert_eq!(python::script("run_calls.py", [&list]).json(), json!([]), "markers that are missing");
    assert!(files_below(&files.join("markers")).len() > 4000);
}

fn refused(ferry: &Ferry, input: &Path) {
    let named = if input.is_dir() { ".metadata" } else { "model.pt" };
    ferry.on("inspect", input, &[]).expect(3).says(&[named]);
    ferry.run(args!["diff", input, input]).expect(3).says(&[named]);
    ferry.refuses(input, named);
}

/// Reads a case with every command, and checks the tensors and the listed calls.
fn told(ferry: &Ferry, case: &Value, input: &Path, outputs: &Path) {
    let document = ferry.inspect(input);
    check_tensors(case, &document);
    check_calls(case, &document, &document["globals"]);

    let output = outputs.join("out.safetensors");
    let report = ferry.convert(input, &output, &["--json", "--part", "."]).json();
    check_tensors(case, &ferry.inspect(&output));
    check_calls(case, &report, &document["globals"]);
    if let Some(under) = case["under"].as_str() {
        // Objects are part of the input's tree, and are lost with the tree. A program has no tree,
        // so one loss covers everything in its modules.
        let lost: BTreeSet<&str> = losses(&report).filter_map(|loss| loss["what"].as_str()).collect();
        let is_program = losses(&report)
            .any(|loss| loss["kind"] == "graph" && loss["why"].to_string().contains("values in its modules"));
        for (name, call) in case["calls"].as_object().unwrap() {
            let path = format!("{under}.{name}");
            let is_lost = is_program || lost.contains(&*path) || lost.contains(under);
            assert!(is_lost || call["is_object"] == false, "{path} is not in {lost:?}");
        }
    }
    let equal = ferry.run(args!["diff", input, output]);
    assert!(equal.code == Some(0), "{equal}");

    let strict = outputs.join("strict.safetensors");
    ferry.run(args!["convert", input, strict, "--part", ".", "--strict"]).expect(3).says(&["--strict"]);
    assert!(!strict.exists());

    ferry.convert(input, &outputs.join("copy.pt"), &[]);
}

fn check_tensors(case: &Value, document: &Value) {
    let found = inspected(document);
    let expected: BTreeMap<String, Facts> = serde_json::from_value(case["tensors"].clone()).unwrap();
    assert!(!expected.is_empty());
    for (name, facts) in expected {
        assert_eq!(found.get(&name), Some(&facts), "{name} of {}", case["case"]);
    }
}

fn losses(report: &Value) -> impl Iterator<Item = &Value> {
    report["losses"].as_array().unwrap().iter()
}

/// Checks that every function and class is among the globals, and that every function call is a
/// loss. The loss is named after the call. If the resulting object does not contain the call, the
/// loss names the called function.
fn check_calls(case: &Value, report: &Value, globals: &Value) {
    let globals: BTreeSet<&str> = globals.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for (name, call) in case["calls"].as_object().unwrap() {
        let path = call["global"].as_str().unwrap();
        assert!(globals.contains(path), "{}: no {path} in {globals:?}", case["case"]);
        if call["is_object"] == true {
            continue;
        }
        let place = match case["under"].as_str() {
            Some(under) if !path.starts_with("armed.") => format!("{under}.{name}"),
            _ => String::new(),
        };
        let is_told = |loss: &Value| {
            let [what, why] = ["what", "why"].map(|key| loss[key].as_str().unwrap());
            what.starts_with(&place) && why.contains(path)
        };
        assert!(losses(report).any(is_told), "{}: {name}, a call of {path}: {report:#}", case["case"]);
    }
}
