//! Archives that torch wrote: what `ferry` finds in them, what it refuses, and that their content
//! survives the way to safetensors and back.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::BTreeSet;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::files_below;
use tensorferry_tests::fixtures::{Case, cases, inspected};

/// Cases of tensors that are more than bytes with strides, or of objects that are no tensors.
fn is_more_than_tensors(case: &Case) -> bool {
    ["zip_sparse", "zip_quantized", "zip_meta", "zip_training"]
        .iter()
        .any(|prefix| case.name.starts_with(prefix))
}

fn ok_cases() -> Vec<Case> {
    let cases: Vec<_> = cases("torch", "zip_").into_iter().filter(|case| !case.is_error()).collect();
    assert_eq!(cases.len(), 21);
    cases
}

fn plain_cases() -> Vec<Case> {
    let cases: Vec<_> = ok_cases().into_iter().filter(|case| !is_more_than_tensors(case)).collect();
    assert_eq!(cases.len(), 12);
    cases
}

/// The paths that a report lists as losses.
fn lost(document: &Value) -> BTreeSet<String> {
    let losses = document["losses"].as_array().unwrap();
    losses.iter().map(|loss| loss["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_tensor_is_found() {
    let ferry = Ferry::new();
    for case in plain_cases() {
        let document = ferry.inspect(&case.input());
        assert_eq!(inspected(&document), case.tensors(|_, _| true), "{}", case.name);
        assert_eq!(document["format"], "torch", "{}", case.name);
    }
}

#[test]
fn plain_tensors_are_found_beside_others_which_are_listed() {
    let ferry = Ferry::new();
    let cases: Vec<_> = ok_cases().into_iter().filter(is_more_than_tensors).collect();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let document = ferry.inspect(&case.input());
        let found = inspected(&document);
        let lost = lost(&document);
        let is_sparse = case.name.starts_with("zip_sparse");
        let is_plain = |name: &str, tensor: &Value| {
            let special = ["quant", "meta", "sparse_layout"].iter().any(|mark| tensor.get(mark).is_some());
            !(special || is_sparse && name.starts_with("s."))
        };
        for (name, facts) in case.tensors(is_plain) {
            assert_eq!(found.get(&name), Some(&facts), "{}: {name}", case.name);
        }
        for (name, tensor) in case.expected["tensors"].as_object().unwrap() {
            let stands_for = name.split(['.', '(']).next().unwrap();
            let is_known = is_plain(name, tensor)
                || found.contains_key(name)
                || lost.contains(name)
                || (is_sparse && (lost.contains(stands_for) || name.ends_with("(dense)")));
            assert!(is_known, "{}: {name} is neither listed nor lost: {document}", case.name);
        }
    }
}

#[test]
fn every_malformed_archive_is_refused_by_name() {
    let ferry = Ferry::new();
    let cases = cases("torch", "bad_zip_");
    assert_eq!(cases.len(), 2);
    for case in cases {
        let input = case.input();
        let command = ["inspect".as_ref(), input.as_os_str(), "--digest".as_ref(), "sha256".as_ref()];
        ferry.run(command).expect(3).says(&["model.pt"]);
        ferry.refuses(&input, "model.pt");
    }
}

#[test]
fn a_pickle_that_calls_a_function_is_read_without_calling_it() {
    let ferry = Ferry::new();
    let case = cases("torch", "zip_code_execution").pop().unwrap();
    assert!(case.is_error());
    let input = case.input();
    let document = ferry.inspect(&input);
    assert!(document["globals"].to_string().contains("builtins.eval"), "{document}");
    let losses = document["losses"].as_array().unwrap();
    let is_the_call =
        |loss: &Value| loss["kind"] == "state" && loss["why"].to_string().contains("builtins.eval");
    assert!(losses.iter().any(is_the_call), "{document}");

    let folder = tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    let command = ["convert".as_ref(), input.as_os_str(), output.as_os_str(), "--strict".as_ref()];
    ferry.run(command).expect(3).says(&["builtins.eval"]);
    assert!(files_below(folder.path()).is_empty());
}

#[test]
fn inspect_names_what_a_pickle_would_have_called() {
    let ferry = Ferry::new();
    let case = ok_cases().into_iter().find(|case| case.name == "zip_training_checkpoint").unwrap();
    let document = ferry.inspect(&case.input());
    let globals: Vec<&str> =
        document["globals"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for global in ["argparse.Namespace", "torch._utils._rebuild_tensor_v2"] {
        assert!(globals.contains(&global), "no {global} in {globals:?}");
    }
}

#[test]
fn content_survives_safetensors() {
    let ferry = Ferry::new();
    for case in plain_cases() {
        let folder = tempdir().unwrap();
        let (there, back) = (folder.path().join("there.safetensors"), folder.path().join("back.pt"));
        let input = case.input();
        let report = ferry.convert(&input, &there, &["--json", "--part", "."]).json();
        let lost = lost(&report);
        let mut expected = case.tensors(|_, _| true);
        // What safetensors has no name for.
        let is_foreign = |dtype: &str| dtype.starts_with("BITS") || ["C32", "BC32", "C128"].contains(&dtype);
        let foreign = expected.extract_if(.., |_, (dtype, ..)| is_foreign(dtype)).map(|(name, _)| name);
        let foreign: BTreeSet<String> = foreign.collect();
        assert!(foreign.is_subset(&lost), "{}: {foreign:?} are not all in {lost:?}", case.name);
        assert_eq!(inspected(&ferry.inspect(&there)), expected, "{}", case.name);
        ferry.convert(&there, &back, &[]);
        assert_eq!(inspected(&ferry.inspect(&back)), expected, "{}", case.name);
        assert!(ferry.equal(&there, &back), "{}", case.name);
        assert_eq!(ferry.equal(&input, &back), foreign.is_empty(), "{}", case.name);
    }
}

#[test]
fn a_torch_copy_has_the_same_content() {
    let ferry = Ferry::new();
    for case in plain_cases() {
        let folder = tempdir().unwrap();
        let copy = folder.path().join("copy.pt");
        ferry.convert(&case.input(), &copy, &["--verify"]);
        assert_eq!(inspected(&ferry.inspect(&copy)), case.tensors(|_, _| true), "{}", case.name);
        assert!(ferry.equal(&case.input(), &copy), "{}", case.name);
    }
}
