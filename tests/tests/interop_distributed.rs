//! Checkpoints that several ranks wrote with the real frameworks: `ferry` sees the whole tensors.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use tempfile::tempdir;
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::fixtures::{Facts, inspected};
use tensorferry_tests::{Ferry, python};

/// What a script printed of a case.
fn facts(document: &Value) -> BTreeMap<String, Facts> {
    serde_json::from_value(document.clone()).unwrap()
}

fn inspect(ferry: &Ferry, input: &Path, options: &[&str]) -> Outcome {
    let mut command: Vec<&OsStr> = vec!["inspect".as_ref(), input.as_ref()];
    command.extend(["--json", "--digest", "sha256"].map(OsStr::new));
    for option in options {
        command.extend(["-i".as_ref(), OsStr::new(option)]);
    }
    ferry.run(command)
}

/// The groups of names that are one tensor.
fn ties(document: &Value) -> BTreeSet<Vec<String>> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for tensor in document["tensors"].as_array().unwrap() {
        if let Some(first) = tensor["tied_to"].as_str() {
            let group = groups.entry(first).or_insert_with(|| vec![first.to_owned()]);
            group.push(tensor["name"].as_str().unwrap().to_owned());
        }
    }
    groups
        .into_values()
        .map(|mut names| {
            names.sort();
            names
        })
        .collect()
}

fn check(found: &Value, truth: &Value, case: &str) {
    assert_eq!(inspected(found), facts(&truth["tensors"]), "{case}");
    let expected: BTreeSet<Vec<String>> = serde_json::from_value(truth["ties"].clone()).unwrap();
    assert_eq!(ties(found), expected, "{case}");
}

#[test]
fn deepspeed_checkpoints_are_what_deepspeed_makes_of_them() {
    let cases = [
        "1-fp32",
        "2-fp32-universal",
        "2-bf16-legacy",
        "2-fp16",
        "3-bf16",
        "3-fp16",
        "3-fp32-small_groups-universal",
        "1-bf16-bf16_optimizer",
    ];
    let folder = tempdir().unwrap();
    let mut arguments = vec![folder.path().as_os_str()];
    arguments.extend(cases.map(OsStr::new));
    let made = python::script("deepspeed_make.py", arguments).json();
    let ferry = Ferry::new();
    for case in cases {
        let (input, truth) = (folder.path().join(case), &made[case]);
        let weights = inspect(&ferry, &input, &[]).expect(0).json();
        assert_eq!(weights["format"], "deepspeed", "{case}");
        check(&weights, &truth["fp32"], case);
        let kept = inspect(&ferry, &input, &["what=optimizer"]).expect(0).json();
        check_optimizer(&kept, &truth["optimizer"], case);
        let module = inspect(&ferry, &input, &["what=model"]);
        if case.starts_with('3') {
            module.expect(2).says(&["what=fp32"]);
        } else {
            check(&module.expect(0).json(), &truth["model"], case);
        }
        if case.contains("universal") {
            let tag = "tag=global_step2_universal";
            check(&inspect(&ferry, &input, &[tag]).expect(0).json(), &truth["fp32"], case);
            let kept = inspect(&ferry, &input, &[tag, "what=optimizer"]).expect(0).json();
            check_optimizer(&kept, &truth["optimizer"], case);
        }
        // The weights are tied, for which DeepSpeed's own way to safetensors fails.
        let output = folder.path().join("out.safetensors");
        ferry.convert(&input, &output, &["--force", "--verify"]);
        let seen = python::script("see.py", [&output]).json();
        assert_eq!(facts(&seen["tensors"]), facts(&truth["fp32"]["tensors"]), "{case}");
    }
}

/// The vectors are the truth's; each parameter's number of steps comes beside them.
fn check_optimizer(found: &Value, truth: &Value, case: &str) {
    let mut tensors = inspected(found);
    let expected = facts(&truth["tensors"]);
    tensors.retain(|name, _| !name.ends_with(".step"));
    assert_eq!(tensors, expected, "{case}");
    assert!(ties(found).is_empty(), "{case}");
}

#[test]
fn distributed_checkpoints_of_torch_are_whole() {
    let cases = ["plain", "ranks", "threads", "hugging_face"];
    let folder = tempdir().unwrap();
    let mut arguments = vec![folder.path().as_os_str()];
    arguments.extend(cases.map(OsStr::new));
    let made = python::script("dcp_make.py", arguments).json();
    let ferry = Ferry::new();
    for case in cases {
        let (input, truth) = (folder.path().join(case), facts(&made[case]));
        let document = inspect(&ferry, &input, &[]).expect(0).json();
        assert_eq!(document["format"], "torch-dcp", "{case}");
        assert_eq!(inspected(&document), truth, "{case}");
        let losses = document["losses"].as_array().unwrap();
        assert!(losses.is_empty(), "{case}: {losses:?}");
        let (safetensors, torch) = (folder.path().join("out.safetensors"), folder.path().join("out.pt"));
        ferry.convert(&input, &safetensors, &["--force", "--verify", "--part", "."]);
        assert_eq!(facts(&python::script("see.py", [&safetensors]).json()["tensors"]), truth, "{case}");
        ferry.convert(&input, &torch, &["--force", "--verify"]);
        assert_eq!(facts(&python::script("see.py", [&torch]).json()["tensors"]), truth, "{case}");
    }
    // The state's own nesting is there, so that a part of it can be asked for.
    let views = folder.path().join("views.safetensors");
    ferry.convert(&folder.path().join("plain"), &views, &["--part", "views"]);
    assert_eq!(python::script("see.py", [&views]).json()["tensors"].as_object().unwrap().len(), 3);
}
