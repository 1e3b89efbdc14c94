//! Which part of a nested object a flat target gets.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::tempdir;
use tensorferry_tests::ferry::names_in;
use tensorferry_tests::fixtures::{cases, inspected};
use tensorferry_tests::{Ferry, python};

fn case(name: &str) -> PathBuf {
    cases("torch", name).into_iter().find(|case| case.name == name).unwrap().input()
}

fn names(ferry: &Ferry, path: &Path) -> BTreeSet<String> {
    inspected(&ferry.inspect(path)).into_keys().collect()
}

#[test]
fn auto_takes_the_only_model_and_lists_what_it_left_out() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let [input, output] = ["nested.pt", "out.safetensors"].map(|name| folder.path().join(name));
    python::script("make_nested.py", [&input]);
    let report = ferry.convert(&input, &output, &["--json"]).json();
    let names: Vec<_> = names(&ferry, &output).into_iter().collect();
    assert_eq!(names, ["emb.weight", "head.weight", "norm.weight"]);
    let losses = report["losses"].to_string();
    assert!(losses.contains("optimizer") && losses.contains("views"), "{losses}");
}

#[test]
fn a_dot_takes_all() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    ferry.convert(&case("zip_training_checkpoint_plain"), &output, &["--part", "."]);
    let names = names(&ferry, &output);
    assert_eq!(names.len(), 44);
    assert!(names.contains("model.emb.weight") && names.contains("optimizer.state.1.exp_avg"), "{names:?}");
}

#[test]
fn a_path_takes_that_part_and_is_no_loss() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let input = case("zip_training_checkpoint_plain");
    let output = folder.path().join("state.safetensors");
    let report = ferry.convert(&input, &output, &["--part", "optimizer.state", "--json"]).json();
    let names = names(&ferry, &output);
    assert_eq!(names.len(), 24, "{names:?}");
    assert!(names.contains("1.exp_avg"), "{names:?}");
    assert!(!report["losses"].to_string().contains("model.emb"), "{report}");
}

#[test]
fn a_path_that_is_not_there_is_named() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    let input = case("zip_training_checkpoint_plain");
    let command =
        ["convert".as_ref(), input.as_os_str(), output.as_os_str(), "--part".as_ref(), "models".as_ref()];
    ferry.run(command).expect(2).says(&["models"]);
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn several_models_are_listed_each_with_its_command() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    let input = case("zip_protocol2");
    ferry.run(["convert".as_ref(), input.as_os_str(), output.as_os_str()]).expect(2).says(&["--part sd"]);
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn inspect_and_copies_take_all() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let input = case("zip_training_checkpoint_plain");
    assert_eq!(names(&ferry, &input).len(), 44);
    let copy = folder.path().join("copy.pt");
    ferry.convert(&input, &copy, &["--strict"]);
    assert_eq!(names(&ferry, &copy).len(), 44);
    assert!(ferry.equal(&input, &copy));
}
