//! Tests the selection of the part of a nested object that is converted to a flat format.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tensorferry_tests::Ferry;

fn case(name: &str) -> PathBuf {
    tensorferry_tests::fixtures::case("torch", name).input()
}

fn names(ferry: &Ferry, path: &Path) -> BTreeSet<String> {
    ferry.tensors(path).into_keys().collect()
}

#[test]
fn a_dot_takes_all() {
    let ferry = Ferry::new();
    let output = ferry.at("out.safetensors");
    ferry.convert(&case("zip_training_checkpoint_plain"), &output, &["--part", "."]);
    let names = names(&ferry, &output);
    assert_eq!(names.len(), 44);
    assert!(names.contains("model.emb.weight") && names.contains("optimizer.state.1.exp_avg"), "{names:?}");
}

#[test]
fn a_path_takes_that_part_and_is_no_loss() {
    let ferry = Ferry::new();
    let input = case("zip_training_checkpoint_plain");
    let output = ferry.at("state.safetensors");
    let report = ferry.convert(&input, &output, &["--part", "optimizer.state", "--json"]).json();
    let names = names(&ferry, &output);
    assert_eq!(names.len(), 24, "{names:?}");
    assert!(names.contains("1.exp_avg"), "{names:?}");
    assert!(!report["losses"].to_string().contains("model.emb"), "{report}");
}

#[test]
fn a_path_that_is_not_there_is_named() {
    let ferry = Ferry::new();
    let output = ferry.at("out.safetensors");
    let input = case("zip_training_checkpoint_plain");
    ferry.try_convert(&input, &output, &["--part", "models"]).expect(2).says(&["models"]);
    assert!(ferry.names().is_empty());
}

#[test]
fn several_models_are_listed_each_with_its_command() {
    let ferry = Ferry::new();
    let output = ferry.at("out.safetensors");
    let input = case("zip_protocol2");
    ferry.try_convert(&input, &output, &[]).expect(2).says(&["--part sd"]);
    assert!(ferry.names().is_empty());
}

#[test]
fn inspect_and_copies_take_all() {
    let ferry = Ferry::new();
    let input = case("zip_training_checkpoint_plain");
    assert_eq!(names(&ferry, &input).len(), 44);
    let copy = ferry.at("copy.pt");
    ferry.convert(&input, &copy, &["--strict"]);
    assert_eq!(names(&ferry, &copy).len(), 44);
    assert!(ferry.equal(&input, &copy));
}

#[test]
fn a_part_is_compared_with_what_was_made_of_it() {
    let ferry = Ferry::new();
    let input = case("zip_training_checkpoint_plain");
    let part = ferry.at("part.pt");
    ferry.convert(&input, &part, &["--part", "model"]);
    ferry.diff(&input, &part, &["--part", "model"]).expect(0);
    ferry.diff(&part, &input, &["--part", "model"]).expect(0);
    ferry.diff(&part, &part, &["--part", "model"]).expect(2).says(&["no such part"]);
}

#[test]
fn what_the_user_leaves_out_of_a_list_is_no_loss() {
    let ferry = Ferry::new();
    let output = ferry.at("out.safetensors");
    let options = ["--part", ".", "--step", "select:model.*", "--json"];
    let report = ferry.convert(&case("zip_training_checkpoint_plain"), &output, &options).json();
    let lost = report["losses"].to_string();
    assert!(lost.contains("\"epoch\"") && !lost.contains("removed or renamed"), "{lost}");
    assert!(!lost.contains("\"mixed\""), "{lost}");
}

#[test]
fn a_part_without_tensors_is_no_model() {
    let ferry = Ferry::new();
    let input = case("zip_training_checkpoint_plain");
    let output = ferry.at("out.safetensors");
    let refused = ferry.try_convert(&input, &output, &["--part", "epoch"]).expect(3);
    refused.says(&["would have no tensors", "--allow-empty"]);
    assert!(ferry.names().is_empty());
    ferry.convert(&input, &output, &["--part", "epoch", "--allow-empty"]);
    // In a format with a tree, the selected part is kept as a tree.
    ferry.convert(&input, &ferry.at("out.pt"), &["--part", "epoch"]);
}
