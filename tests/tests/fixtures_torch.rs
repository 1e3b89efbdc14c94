//! Files that torch wrote, in each of its containers: what `ferry` finds in them, what it refuses, and
//! that their content survives the way to safetensors and back.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::PathBuf;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::files_below;
use tensorferry_tests::fixtures::{Case, Facts, cases, inspected};

/// What a distributed checkpoint is pointed at by: its folder.
fn input(case: &Case) -> PathBuf {
    if case.name.starts_with("dcp_") { case.folder.join("dcp") } else { case.input() }
}

/// Every case that must be read.
fn ok_cases() -> Vec<Case> {
    let cases: Vec<_> = cases("torch", "").into_iter().filter(|case| !case.is_error()).collect();
    assert_eq!(cases.len(), 30);
    cases
}

/// Cases of tensors that are more than bytes with strides, or of objects that are no tensors.
fn plain_cases() -> Vec<Case> {
    let more = ["zip_sparse", "zip_quantized", "zip_meta", "zip_training", "legacy_training", "torchscript"];
    let is_more = |case: &Case| more.iter().any(|prefix| case.name.starts_with(prefix));
    let cases: Vec<_> = ok_cases().into_iter().filter(|case| !is_more(case)).collect();
    assert_eq!(cases.len(), 19);
    cases
}

/// The paths that a report lists as losses.
fn lost(document: &Value) -> BTreeSet<String> {
    let losses = document["losses"].as_array().unwrap();
    losses.iter().map(|loss| loss["what"].as_str().unwrap().to_owned()).collect()
}

/// The tensors of a case, under an option of the reader.
fn with_option(ferry: &Ferry, case: &Case, option: &str) -> BTreeMap<String, Facts> {
    let input = case.input();
    let arguments = ["inspect".as_ref(), input.as_os_str(), "-i".as_ref(), option.as_ref()];
    let digest = ["--json", "--digest", "sha256"].map(OsStr::new);
    inspected(&ferry.run(arguments.into_iter().chain(digest)).expect(0).json())
}

/// What stands in the file: a dense form does not, nor does a tensor without data.
fn is_there(name: &str, tensor: &Value) -> bool {
    !name.ends_with("(dense)") && tensor.get("meta").is_none()
}

/// What the descriptions leave out: numbers of quantized tensors, which stand there under `quant`, and
/// the one array of numpy.
fn beside(found: &mut BTreeMap<String, Facts>, expected: &BTreeMap<String, Facts>) -> BTreeSet<String> {
    let parts = ["scale", "zero_point", "scales", "zero_points", "axis"];
    let is_part = |name: &str| {
        let part = name.rsplit_once('.').filter(|(tensor, _)| expected.contains_key(*tensor));
        name == "np_array" || part.is_some_and(|(_, part)| parts.contains(&part))
    };
    found.extract_if(.., |name, _| is_part(name)).map(|(name, _)| name).collect()
}

#[test]
fn every_tensor_is_found_and_no_other() {
    let ferry = Ferry::new();
    let mut tensors = 0;
    for case in ok_cases() {
        let document = ferry.inspect(&input(&case));
        let expected = case.tensors(is_there_and_has_facts);
        let mut found = inspected(&document);
        let beside = beside(&mut found, &expected);
        assert_eq!(found, expected, "{}", case.name);
        let quantized = case.expected["tensors"].as_object().unwrap().values();
        let numbers = quantized.filter_map(|tensor| tensor["quant"].as_object()).map(|quant| quant.len() - 1);
        let arrays = usize::from(beside.contains("np_array"));
        assert_eq!(beside.len(), numbers.sum::<usize>() + arrays, "{}: {beside:?}", case.name);
        tensors += found.len();

        let format = if case.name.starts_with("dcp_") { "torch-dcp" } else { "torch" };
        assert_eq!(document["format"], format, "{}", case.name);
        let meta = case.expected["tensors"].as_object().unwrap().iter();
        let meta: BTreeSet<String> =
            meta.filter(|(_, tensor)| tensor.get("meta").is_some()).map(|(name, _)| name.clone()).collect();
        let losses = document["losses"].as_array().unwrap().iter().filter(|loss| loss["kind"] == "tensor");
        let gone: BTreeSet<String> = losses.map(|loss| loss["what"].as_str().unwrap().to_owned()).collect();
        assert_eq!(gone, meta, "{}", case.name);
    }
    assert_eq!(tensors, 789 + 121 + 3 + 16);
}

fn is_there_and_has_facts(name: &str, tensor: &Value) -> bool {
    is_there(name, tensor) && tensor["sha256"].is_string()
}

#[test]
fn sparse_tensors_are_made_dense() {
    let ferry = Ferry::new();
    let cases: Vec<_> = ok_cases().into_iter().filter(|case| case.name.starts_with("zip_sparse")).collect();
    assert_eq!(cases.len(), 5);
    for case in cases {
        // Each has one sparse tensor, `s`, and others beside it.
        let mut expected = case.tensors(|name, _| !name.starts_with("s.") && !name.ends_with("(dense)"));
        let mut dense = case.tensors(|name, _| name == "s(dense)");
        expected.extend(dense.remove("s(dense)").map(|facts| ("s".to_owned(), facts)));
        assert_eq!(with_option(&ferry, &case, "densify=true"), expected, "{}", case.name);
    }
}

#[test]
fn quantized_tensors_are_made_floats() {
    let ferry = Ferry::new();
    let case = ok_cases().into_iter().find(|case| case.name == "zip_quantized").unwrap();
    let found = with_option(&ferry, &case, "dequantize=f32");
    let tensors = case.expected["tensors"].as_object().unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), tensors.keys().collect::<Vec<_>>());
    let mut quantized = 0;
    for (name, tensor) in tensors {
        let (dtype, shape, digest) = &found[name];
        assert_eq!(serde_json::json!(shape), tensor["shape"], "{name}");
        if tensor["quant"].is_object() {
            assert_eq!(dtype, "F32", "{name}");
            assert_ne!(*digest, tensor["sha256"].as_str().unwrap(), "{name}");
            quantized += 1;
        }
    }
    assert!(quantized >= 4, "{quantized}");
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
    for name in ["zip_code_execution", "legacy_code_execution"] {
        let case = cases("torch", name).pop().unwrap();
        assert!(case.is_error());
        let input = case.input();
        let document = ferry.inspect(&input);
        assert_eq!(inspected(&document).keys().collect::<Vec<_>>(), ["w"], "{document}");
        assert!(document["globals"].to_string().contains("builtins.eval"), "{document}");
        let losses = document["losses"].as_array().unwrap();
        let is_the_call =
            |loss: &Value| loss["kind"] == "state" && loss["why"].to_string().contains("builtins.eval");
        assert_eq!(losses.iter().filter(|loss| is_the_call(loss)).count(), 1, "{document}");

        let folder = tempdir().unwrap();
        let output = folder.path().join("out.safetensors");
        let command = ["convert".as_ref(), input.as_os_str(), output.as_os_str(), "--strict".as_ref()];
        ferry.run(command).expect(3).says(&["builtins.eval"]);
        assert!(files_below(folder.path()).is_empty());
    }
}

#[test]
fn inspect_names_what_a_pickle_would_have_called() {
    let ferry = Ferry::new();
    for name in ["zip_training_checkpoint", "legacy_training_checkpoint"] {
        let case = ok_cases().into_iter().find(|case| case.name == name).unwrap();
        let document = ferry.inspect(&case.input());
        let globals: Vec<&str> =
            document["globals"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for global in ["argparse.Namespace", "torch._utils._rebuild_tensor_v2"] {
            assert!(globals.contains(&global), "{name}: no {global} in {globals:?}");
        }
    }
}

#[test]
fn content_survives_safetensors() {
    let ferry = Ferry::new();
    for case in plain_cases() {
        let folder = tempdir().unwrap();
        let (there, back) = (folder.path().join("there.safetensors"), folder.path().join("back.pt"));
        let input = input(&case);
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
        let input = input(&case);
        ferry.convert(&input, &copy, &["--verify"]);
        assert_eq!(inspected(&ferry.inspect(&copy)), case.tensors(|_, _| true), "{}", case.name);
        assert!(ferry.equal(&input, &copy), "{}", case.name);
    }
}
