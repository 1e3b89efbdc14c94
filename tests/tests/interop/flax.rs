//! Tests that Flax reads the files that `ferry` writes, with `msgpack_restore`, and with
//! `from_bytes` and a target.

use std::path::Path;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::seen::{Seen, tensors};
use tensorferry_tests::{Ferry, args, python};

fn seen(path: &Path, how: &str) -> Seen {
    let tensors = tensors(&python::script("flax_see.py", args![path, how]).json());
    Seen { tensors, ties: std::collections::BTreeSet::new() }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn flax_restores_what_was_written() {
    let ferry = Ferry::new();
    let [written, chunked] = ferry.paths(["flax_model.msgpack", "chunked.msgpack"]);
    for (section, name) in [("safetensors", "all_dtypes"), ("numpy", "npz_all_dtypes")] {
        let case = case(section, name);
        ferry.convert(&case.input(), &written, &["--verify", "--force"]);
        let expected = ferry.tensors(&written);
        assert!(expected.len() >= 10, "{expected:?}");
        for how in ["plain", "like"] {
            assert_eq!(seen(&written, how).tensors, expected, "{section} {how}");
        }
    }
    ferry.convert(&written, &chunked, &["-o", "chunk_size=5", "--verify"]);
    assert_eq!(seen(&chunked, "plain").tensors, ferry.tensors(&written));
    let state = case("flax", "train_state").folder.join("checkpoint_1");
    ferry.convert(&state, &written, &["--verify", "--force", "--strict"]);
    assert_eq!(seen(&written, "like").tensors, case("flax", "train_state").all());
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_model_computes_the_same_in_pytorch() {
    let ferry = Ferry::new();
    let at = |name: &str| ferry.at(name);
    let python = |command: &str| python::script("flax_torch.py", args![command, ferry.home()]);
    python("make");
    for (input, output, to, step) in [
        ("bert-flax", "to-torch", Some("safetensors"), "flax-to-torch"),
        ("bert-torch", "to-flax", Some("flax"), "torch-to-flax"),
        ("small.msgpack", "small.safetensors", None, "flax-to-torch"),
        ("small.pt", "back.msgpack", None, "torch-to-flax,params=params."),
    ] {
        let to = to.map_or(Vec::new(), |to| vec!["--to", to]);
        let options = [&["--step", step, "--verify"], &*to].concat();
        ferry.convert(&at(input), &at(output), &options);
    }
    python("check");
}
