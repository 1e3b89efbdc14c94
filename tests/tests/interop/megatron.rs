//! Tests that `ferry` joins megatron-core checkpoints from several ranks in the same way as
//! megatron-core's own resharding to one rank.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use tensorferry_tests::{Ferry, fixtures, python, seen};

#[test]
#[ignore = "installs torch and megatron-core from PyPI"]
fn ranks_are_what_megatron_makes_of_them() {
    let cases = ["gated", "tied", "experts"];
    let ferry = Ferry::new();
    let mut arguments = vec![ferry.home().as_os_str()];
    arguments.extend(cases.map(OsStr::new));
    let made = python::script("megatron_make.py", arguments).json();
    for case in cases {
        let truth = seen::tensors(&made[case]);
        let document = ferry.inspect(&ferry.at(case));
        assert_eq!(document["format"], "megatron", "{case}");
        assert_eq!(fixtures::inspected(&document), truth, "{case}");
        let (safetensors, torch) = (ferry.at("out.safetensors"), ferry.at("out.pt"));
        ferry.convert(&ferry.at(case), &safetensors, &["--force", "--verify"]);
        assert_eq!(seen::Seen::by_framework(&safetensors).tensors, truth, "{case}");
        ferry.convert(&ferry.at(case), &torch, &["--force", "--verify"]);
        assert_eq!(seen::Seen::by_framework(&torch).tensors, truth, "{case}");
        // In a distributed checkpoint, layers are stacked, and norms have the names that
        // Transformer Engine uses.
        ferry.convert(&ferry.at(format!("{case}-dist")), &safetensors, &["--force", "--verify"]);
        let renamed = |name: &str| {
            name.replace("input_layernorm.", "self_attention.linear_qkv.layer_norm_")
                .replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_")
        };
        let truth: BTreeMap<_, _> =
            truth.into_iter().map(|(name, tensor)| (renamed(&name), tensor)).collect();
        assert_eq!(seen::Seen::by_framework(&safetensors).tensors, truth, "{case}");
    }
}

/// Tests that a run written by ferry equals the run saved by megatron-core on each rank.
#[test]
#[ignore = "installs torch and megatron-core from PyPI"]
fn megatron_loads_what_is_written() {
    let cases = ["gated", "tied", "experts"];
    let ferry = Ferry::new();
    let mut arguments = vec![ferry.home().as_os_str()];
    arguments.extend(cases.map(OsStr::new));
    python::script("megatron_make.py", arguments);
    let like = |case: &str| format!("like={}", ferry.at(case).display());
    for case in cases {
        let output = ferry.at(format!("{case}-written"));
        ferry.convert(&ferry.at(case), &output, &["--to", "megatron", "-o", like(case).as_str(), "--verify"]);
    }
    let load = |form: &str, pairs: &[&str]| {
        let home = ferry.home().as_os_str();
        let arguments =
            [home, OsStr::new(form)].into_iter().chain(pairs.iter().map(|pair| OsStr::new(*pair)));
        python::script("megatron_load.py", arguments).json()
    };
    let counts = load("dist", &["gated:gated-written", "tied:tied-written", "experts:experts-written"]);
    assert_eq!(counts, serde_json::json!({"gated-written": 54, "tied-written": 106, "experts-written": 78}));
    for case in ["gated", "tied"] {
        let (whole, output) = (ferry.at(format!("{case}.safetensors")), ferry.at(format!("{case}-ranks")));
        ferry.convert(&ferry.at(case), &whole, &[]);
        let grid = ["-o", "tensor_parallel=2", "-o", "pipeline_parallel=2"];
        let like = like(case);
        let options = [&["--to", "megatron", "--verify", "-o", like.as_str()][..], &grid].concat();
        ferry.convert(&whole, &output, &options);
    }
    let counts = load("ranks", &["gated:gated-ranks", "tied:tied-ranks"]);
    assert_eq!(counts, serde_json::json!({"gated-ranks": 54, "tied-ranks": 106}));
}

/// Tests that a model converted with the recipes produces the same outputs in megatron-core and in
/// transformers.
#[test]
#[ignore = "installs torch, transformers and megatron-core from PyPI"]
fn a_llama_computes_the_same_under_both_names() {
    let ferry = Ferry::new();
    python::script("megatron_make.py", [ferry.home().as_os_str(), OsStr::new("gated")]);
    let (llama, back) = (ferry.at("llama.safetensors"), ferry.at("back"));
    let from = "llama-from-megatron,groups=2,queries=2,head=4,width=16";
    ferry.convert(&ferry.at("gated"), &llama, &["--step", from, "--verify"]);
    let to = "llama-to-megatron,groups=2,head=4,width=16";
    ferry.convert(&llama, &back, &["--to", "megatron", "--step", to, "--verify"]);
    for checkpoint in [ferry.at("gated-dist"), back.join("release")] {
        let arguments = [OsStr::new("gated"), checkpoint.as_os_str(), llama.as_os_str()];
        let seen = python::script("megatron_llama.py", arguments).json();
        let [largest, difference] = ["largest", "difference"].map(|key| seen[key].as_f64().unwrap());
        assert!(largest > 0.1 && difference < 1e-5 * largest.max(1.0), "{seen}");
    }
}
