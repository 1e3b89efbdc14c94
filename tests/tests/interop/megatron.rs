//! What megatron-core saves on several ranks: `ferry` makes of it what megatron-core's own resharding to one rank makes.

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
        if case == "experts" {
            continue;
        }
        // Of a distributed checkpoint the layers are stacked, and norms have the names that Transformer Engine gives them.
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
