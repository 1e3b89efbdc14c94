//! Tests that PyTorch, the safetensors library and `ferry` read the same contents from each other's
//! files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use tensorferry_tests::fixtures::{case, cases};
use tensorferry_tests::model::Model;
use tensorferry_tests::seen::Seen;
use tensorferry_tests::{Ferry, args, python};

/// Reads a file with its framework. torch can look up or calculate the offsets of storages, and
/// both methods must produce the same result.
fn seen(path: &Path) -> Seen {
    let seen = Seen::by_framework(path);
    if path.extension() == Some(OsStr::new("pt")) {
        let other = python::script("see.py", args![path, "--calculate-offsets"]).json();
        assert_eq!(Seen::printed(&other), seen, "calculate_storage_offsets=True reads something else");
    }
    seen
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn views_arrive_as_torch_sees_them() {
    let ferry = Ferry::new();
    let [torch, safetensors, copy] = ferry.paths(["views.pt", "views.safetensors", "copy.pt"]);
    let truth = Seen::printed(&python::script("make_views.py", [&torch]).json());
    assert_eq!(truth.tensors.len(), 153);
    // The budget is far smaller than the tensors, so that large gathers are divided.
    ferry.convert(&torch, &safetensors, &["--memory", "32MiB"]);
    assert_eq!(seen(&safetensors).tensors, truth.tensors);
    ferry.convert(&torch, &copy, &[]);
    assert_eq!(seen(&copy).tensors, truth.tensors);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_wrong_stride_is_seen() {
    let ferry = Ferry::new();
    let [plain, altered] = ferry.paths(["plain.pt", "altered.pt"]);
    let truth = python::script("alter_strides.py", [&plain, &altered]).json();
    let [truth_plain, truth_altered] = [&truth[0], &truth[1]].map(Seen::printed);
    assert_ne!(truth_plain, truth_altered, "the strides make no difference");
    for (input, truth) in [(&plain, truth_plain), (&altered, truth_altered)] {
        let output = input.with_extension("safetensors");
        ferry.convert(input, &output, &[]);
        assert_eq!(seen(&output), truth, "{}", input.display());
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn torch_loads_every_dtype_it_has() {
    let case = case("torch", "zip_all_dtypes");
    let ferry = Ferry::new();
    let copy = ferry.at("copy.pt");
    ferry.convert(&case.input(), &copy, &[]);
    let truth = case.all();
    assert_eq!(truth.len(), 32);
    assert_eq!(seen(&copy).tensors, truth);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn torch_loads_every_dtype_of_safetensors() {
    let ferry = Ferry::new();
    let [library, torch] = ferry.paths(["library.safetensors", "torch.pt"]);
    python::script("make_library.py", [&library]);
    ferry.convert(&library, &torch, &["--strict"]);
    let seen = seen(&torch);
    assert_eq!(seen.tensors, self::seen(&library).tensors);
    assert!(seen.tensors.len() > 60, "{}", seen.tensors.len());
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn torch_loads_what_was_big_endian() {
    let case = case("torch", "zip_big_endian");
    let ferry = Ferry::new();
    let copy = ferry.at("copy.pt");
    ferry.convert(&case.input(), &copy, &[]);
    assert_eq!(seen(&copy).tensors, case.all());
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn the_bytes_are_the_librarys_own() {
    let ferry = Ferry::new();
    let [library, torch, back] = ferry.paths(["library.safetensors", "torch.pt", "back.safetensors"]);
    python::script("make_library.py", [&library]);
    ferry.convert(&library, &torch, &[]);
    ferry.convert(&torch, &back, &[]);
    assert!(
        std::fs::read(&library).unwrap() == std::fs::read(&back).unwrap(),
        "the bytes differ from the library's"
    );
    assert_eq!(ferry.inspect(&back)["metadata"], serde_json::json!({"format": "pt"}));
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn fixtures_on_the_way_back_are_the_librarys_own_bytes() {
    let mut compared = 0;
    for case in cases("safetensors", "").iter().filter(|case| !case.is_error() && case.name != "sharded") {
        // The library writes several keys of metadata in random order.
        if case.expected["metadata"].as_object().is_some_and(|metadata| metadata.len() > 1) {
            continue;
        }
        let ferry = Ferry::new();
        let [torch, back, library] = ferry.paths(["torch.pt", "back.safetensors", "library.safetensors"]);
        ferry.convert(&case.input(), &torch, &["--allow-empty"]);
        ferry.convert(&torch, &back, &["--allow-empty"]);
        python::script("make_library.py", [&library, &case.input()]);
        assert!(std::fs::read(&library).unwrap() == std::fs::read(&back).unwrap(), "{}", case.name);
        compared += 1;
    }
    assert_eq!(compared, 4);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn tied_weights_stay_tied() {
    let case = case("torch", "zip_module_state_dict");
    let ferry = Ferry::new();
    let [copy, deduped, back] = ferry.paths(["copy.pt", "deduped.safetensors", "back.pt"]);
    let ties = BTreeSet::from([["emb.weight", "head.weight"].map(str::to_owned).to_vec()]);
    ferry.convert(&case.input(), &copy, &[]);
    assert_eq!(seen(&copy).ties, ties);
    // Convert through a format without ties, whose metadata contains the name of the dropped
    // tensor.
    ferry.convert(&case.input(), &deduped, &["-o", "tied=dedupe"]);
    assert_eq!(seen(&deduped).tensors.len(), 14);
    ferry.convert(&deduped, &back, &[]);
    assert_eq!(seen(&back), seen(&copy));
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_nested_checkpoint_keeps_its_objects() {
    let ferry = Ferry::new();
    let [original, copy] = ferry.paths(["original.pt", "copy.pt"]);
    python::script("make_nested.py", [&original]);
    ferry.convert(&original, &copy, &["--strict"]);
    python::script("same_nested.py", [&original, &copy]);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_sharded_model_loads() {
    let ferry = Ferry::new();
    let [model, torch] = ferry.paths(["model.safetensors", "model.pt"]);
    Model::of_size(16 << 20, 40, 5).write(&model).unwrap();
    let truth = seen(&model);
    assert_eq!(truth.tensors.len(), 40);
    let shards = ferry.at("shards/");
    ferry.convert(&model, &shards, &["-o", "max_shard_size=3MB", "--to", "safetensors"]);
    let index = shards.join("model.safetensors.index.json");
    assert_eq!(seen(&index).tensors, truth.tensors);
    ferry.convert(&index, &torch, &[]);
    assert_eq!(seen(&torch).tensors, truth.tensors);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_large_model_arrives_in_torch() {
    let ferry = Ferry::new();
    let [model, torch, back] = ferry.paths(["model.safetensors", "model.pt", "back.safetensors"]);
    Model::of_size(64 << 20, 30, 6).write(&model).unwrap();
    ferry.convert(&model, &torch, &[]);
    let truth = seen(&model).tensors;
    assert_eq!(seen(&torch).tensors, truth);
    ferry.convert(&torch, &back, &[]);
    assert_eq!(seen(&back).tensors, truth);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn auto_takes_the_only_model_and_lists_what_it_left_out() {
    let ferry = Ferry::new();
    let [input, output] = ferry.paths(["nested.pt", "out.safetensors"]);
    python::script("make_nested.py", [&input]);
    let report = ferry.convert(&input, &output, &["--json"]).json();
    let names: Vec<_> = ferry.tensors(&output).into_keys().collect();
    assert_eq!(names, ["emb.weight", "head.weight", "norm.weight"]);
    let losses = report["losses"].to_string();
    assert!(losses.contains("optimizer") && losses.contains("views"), "{losses}");
}
