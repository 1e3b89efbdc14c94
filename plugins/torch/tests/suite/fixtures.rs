//! Checks all `zip_*`, `legacy_*` and `bad_zip_*` fixtures, which are files that torch wrote. The
//! names, dtypes, shapes and digests of the tensors must match exactly.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{CatalogView, LossKind, MemoryContext, MemorySource};
use tensorferry_test_kit::fixtures::{cases, expected, facts, facts_of};
use tensorferry_torch::Torch;

fn source(case: &Path, expected: &Value) -> MemorySource {
    let file = expected["files"][0].as_str().unwrap();
    MemorySource::file(file, fs::read(case.join(file)).unwrap())
}

/// Returns whether the file contains the tensor. Files do not contain the dense forms of sparse
/// tensors, or tensors without data.
fn is_there(name: &str, tensor: &Value) -> bool {
    !name.ends_with("(dense)") && tensor.get("meta").is_none()
}

/// Returns whether the fixture's description leaves this tensor out: the scales of quantized
/// tensors, the shapes of sparse tensors, and the only numpy array.
fn is_beside(name: &str, wanted: &BTreeSet<&str>) -> bool {
    let part = name.rsplit_once('.').filter(|(tensor, _)| wanted.contains(tensor));
    let parts = ["scale", "zero_point", "scales", "zero_points", "axis"];
    let shape = name.strip_suffix(".shape").is_some_and(|of| wanted.contains(&*format!("{of}.values")));
    shape || name == "np_array" || part.is_some_and(|(_, part)| parts.contains(&part))
}

#[test]
fn zip_cases_are_exact() {
    assert_eq!(check_cases("zip_"), (21, 789), "files and tensors seen");
}

#[test]
fn legacy_cases_are_exact() {
    assert_eq!(check_cases("legacy_"), (7, 121), "files and tensors seen");
}

#[test]
fn the_torchscript_case_is_exact() {
    assert_eq!(check_cases("torchscript"), (1, 3), "files and tensors seen");
}

/// Checks the fixtures whose names start with `prefix`. Returns the number of files and tensors
/// compared.
fn check_cases(prefix: &str) -> (usize, usize) {
    let (mut files, mut tensors) = (0, 0);
    for case in cases("torch", prefix) {
        let name = case.file_name().unwrap().to_str().unwrap();
        let expected = expected(&case);
        let (source, context) = (source(&case, &expected), MemoryContext::default());
        let view = MemoryView::read(&Torch, &[], &source, &context).unwrap_or_else(|e| panic!("{name}: {e}"));
        if name.ends_with("_code_execution") {
            continue;
        }
        files += 1;
        let wanted = expected["tensors"].as_object().unwrap();
        let there: BTreeSet<&str> =
            wanted.iter().filter(|(key, value)| is_there(key, value)).map(|(key, _)| key.as_str()).collect();
        let names = view.catalog().tensors().iter().map(|tensor| tensor.name.as_str());
        let found: BTreeSet<&str> = names.filter(|name| !is_beside(name, &there)).collect();
        assert_eq!(found, there, "{name}");
        for tensor in there {
            assert_eq!(facts(&view, tensor), facts_of(&wanted[tensor]), "{name}: {tensor}");
            tensors += 1;
        }
        let losses = view.catalog().losses().iter().filter(|loss| loss.kind == LossKind::Tensor);
        let lost: BTreeSet<&str> = losses.map(|loss| loss.what.as_str()).collect();
        let meta = wanted.iter().filter(|(_, tensor)| tensor.get("meta").is_some());
        assert_eq!(lost, meta.map(|(key, _)| key.as_str()).collect(), "{name}");
    }
    (files, tensors)
}

#[test]
fn sparse_cases_are_made_dense() {
    let mut seen = 0;
    for case in cases("torch", "zip_sparse") {
        let expected = expected(&case);
        let (source, context) = (source(&case, &expected), MemoryContext::default());
        let densify = [("densify".to_owned(), "true".to_owned())];
        let view = MemoryView::read(&Torch, &densify, &source, &context).unwrap();
        assert_eq!(view.catalog().tensors().len(), 2, "{}", case.display());
        assert_eq!(facts(&view, "s"), facts_of(&expected["tensors"]["s(dense)"]));
        seen += 1;
    }
    assert_eq!(seen, 5, "files seen");
}

#[test]
fn shared_storages_are_ties() {
    for case in ["zip_", "legacy_"].map(|prefix| cases("torch", prefix)).concat() {
        let expected = expected(&case);
        let (source, context) = (source(&case, &expected), MemoryContext::default());
        let view = MemoryView::read(&Torch, &[], &source, &context).unwrap();
        let find = |name: &str| view.tensor_ids().find(|&id| view.tensor(id).name == name);
        for (a, b) in [("emb.weight", "head.weight"), ("sd.emb.weight", "sd.head.weight"), ("base", "alias")]
        {
            let (Some(a), Some(b)) = (find(a), find(b)) else { continue };
            assert_eq!(view.tied_to(a), view.tied_to(b), "{}", case.display());
        }
    }
}

#[test]
fn bad_zip_cases_are_refused() {
    let cases = cases("torch", "bad_zip_");
    for case in &cases {
        let expected = expected(case);
        let (source, context) = (source(case, &expected), MemoryContext::default());
        // The flipped bit is in a storage, whose CRC is checked when the storage is read.
        let error = MemoryView::read(&Torch, &[], &source, &context).and_then(|view| {
            view.catalog().tensors().iter().try_for_each(|tensor| view.tensor_named(&tensor.name).map(drop))
        });
        assert!(error.is_err(), "{}", case.display());
    }
    assert_eq!(cases.len(), 2, "files seen");
}

#[test]
fn a_call_is_listed_and_the_tensors_beside_it_are_read() {
    for container in ["zip", "legacy"] {
        let case = cases("torch", &format!("{container}_code_execution")).remove(0);
        let (source, context) = (source(&case, &expected(&case)), MemoryContext::default());
        let view = MemoryView::read(&Torch, &[], &source, &context).unwrap();
        let catalog = view.catalog();
        assert_eq!(catalog.tensors().len(), 1);
        assert_eq!(view.tensor_named("w").unwrap().1, [2]);
        assert!(catalog.globals().iter().any(|global| global == "builtins.eval"));
        let loss = &catalog.losses()[0];
        assert_eq!((loss.kind, &*loss.what), (LossKind::State, "x"));
        assert!(loss.why.contains("builtins.eval"), "{loss}");
    }
}
