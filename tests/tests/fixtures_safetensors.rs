//! Files that the safetensors library wrote: what `ferry` finds in them, what it refuses, and that
//! their content survives the way to torch and back.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ffi::OsStr;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::fixtures::{Case, cases, inspected};

fn ok_cases() -> Vec<Case> {
    let cases: Vec<_> = cases("safetensors", "").into_iter().filter(|case| !case.is_error()).collect();
    assert_eq!(cases.len(), 6);
    cases
}

fn error_cases() -> Vec<Case> {
    let cases: Vec<_> = cases("safetensors", "").into_iter().filter(Case::is_error).collect();
    assert_eq!(cases.len(), 8);
    cases
}

#[test]
fn every_tensor_is_found() {
    let ferry = Ferry::new();
    for case in ok_cases() {
        let document = ferry.inspect(&case.input());
        assert_eq!(inspected(&document), case.tensors(|_, _| true), "{}", case.name);
        assert_eq!(document["format"], "safetensors", "{}", case.name);
        assert_eq!(document["losses"].as_array().map(Vec::len), Some(0), "{}: {document}", case.name);
        if let Some(metadata) = case.expected.get("metadata") {
            assert_eq!(&document["metadata"], metadata, "{}", case.name);
        }
    }
}

#[test]
fn a_set_is_found_by_its_folder_its_index_and_its_members() {
    let ferry = Ferry::new();
    let case = ok_cases().into_iter().find(|case| case.name == "sharded").unwrap();
    let expected = case.tensors(|_, _| true);
    assert_eq!(expected.len(), 6);
    for name in ["", "model.safetensors.index.json", "model-00001-of-00003.safetensors"] {
        assert_eq!(inspected(&ferry.inspect(&case.folder.join(name))), expected, "{name:?}");
    }
}

#[test]
fn every_malformed_file_is_refused_by_name() {
    let ferry = Ferry::new();
    for case in error_cases() {
        let input = case.input();
        ferry
            .run([OsStr::new("inspect"), input.as_ref()])
            .expect(3)
            .says(&["malformed", "model.safetensors"]);
        ferry.refuses(&input, "model.safetensors");
    }
}

#[test]
fn content_survives_torch() {
    let ferry = Ferry::new();
    for case in ok_cases() {
        let folder = tempdir().unwrap();
        let (there, back) = (folder.path().join("there.pt"), folder.path().join("back.safetensors"));
        let input = case.input();
        let report = ferry.convert(&input, &there, &["--json", "--strict"]).json();
        assert_eq!(report["losses"], serde_json::json!([]), "{}", case.name);
        assert!(ferry.equal(&input, &there), "{}", case.name);
        ferry.convert(&there, &back, &["--strict"]);
        assert!(ferry.equal(&input, &back), "{}", case.name);
        assert_eq!(inspected(&ferry.inspect(&back)), case.tensors(|_, _| true), "{}", case.name);
        assert_eq!(ferry.inspect(&back)["metadata"], ferry.inspect(&input)["metadata"], "{}", case.name);
    }
}

#[test]
fn a_copy_is_the_same_bytes() {
    let ferry = Ferry::new();
    for case in ok_cases().iter().filter(|case| case.name != "sharded") {
        let folder = tempdir().unwrap();
        let copy = folder.path().join("copy.safetensors");
        ferry.convert(&case.input(), &copy, &["--verify"]);
        // The library orders several metadata keys at random; ferry sorts them.
        if case.expected["metadata"].as_object().is_none_or(|metadata| metadata.len() <= 1) {
            assert!(std::fs::read(case.input()).unwrap() == std::fs::read(&copy).unwrap(), "{}", case.name);
        }
    }
}
