//! Tests of training checkpoints in the layouts of common scripts and libraries. `--part auto` must
//! find the model and report what it omits. A copy must keep what torch accepts, and `inspect` must
//! fit on one screen.

use serde_json::Value;
use std::path::Path;
use tensorferry_tests::seen::{Seen, inspect};
use tensorferry_tests::{Ferry, args, python};

/// The number of lines of a terminal.
const SCREEN: usize = 50;

fn made(folder: &Path) -> Vec<(String, Value)> {
    let printed = python::script("torch_training.py", [folder]).json();
    printed.as_object().unwrap().iter().map(|(case, truth)| (case.clone(), truth.clone())).collect()
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn the_model_is_found_whatever_it_is_called() {
    let ferry = Ferry::new();
    let (mut alone, mut several) = (0, 0);
    for (case, truth) in made(ferry.home()) {
        let input = ferry.at(format!("{case}.pt"));
        let output = ferry.at("out.safetensors");
        let Some(parts) = truth["parts"].as_object() else {
            let said = ferry.convert(&input, &output, &["--force", "--verify", "--losses"]);
            assert_eq!(Seen::by_framework(&output).tensors, Seen::printed(&truth["model"]).tensors, "{case}");
            // Each top-level entry other than the model has its own line.
            let whole = inspect(&ferry, &input, &[]).expect(0).json();
            let part = truth["part"].as_str().unwrap();
            let top = part.split('.').next().unwrap();
            for key in
                whole["state"].as_object().unwrap().keys().filter(|key| !part.is_empty() && *key != top)
            {
                assert!(said.stderr.contains(&format!("{key:?}")), "{case}: no mention of {key}: {said}");
            }
            alone += 1;
            continue;
        };
        let commands: Vec<String> = parts.keys().map(|part| format!("--part {part}")).collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        ferry.run(args!["convert", input, output]).expect(2).says(&commands);
        for (part, truth) in parts {
            ferry.convert(&input, &output, &["--force", "--part", part]);
            let truth = Seen::printed(truth).tensors;
            assert_eq!(Seen::by_framework(&output).tensors, truth, "{case}: {part}");
        }
        several += 1;
    }
    assert_eq!((alone, several), (15, 2));
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_copy_keeps_the_whole_tree() {
    let ferry = Ferry::new();
    for (case, _) in made(ferry.home()) {
        let input = ferry.at(format!("{case}.pt"));
        for (name, format) in [("back", "zip"), ("legacy", "legacy")] {
            let copy = ferry.at(format!("{case}.{name}.pt"));
            ferry.convert(&input, &copy, &["-o", &format!("format={format}"), "--verify"]);
            assert_eq!(Seen::by_ferry(&ferry, &copy, &[]), Seen::by_ferry(&ferry, &input, &[]), "{case}");
        }
    }
    python::script("torch_training.py", args![ferry.home(), "--check"]);
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn one_screen_shows_what_a_large_checkpoint_holds() {
    let ferry = Ferry::new();
    python::script("torch_training.py", args![ferry.home(), "--large"]);
    let input = ferry.at("large.pt");
    assert!(std::fs::metadata(&input).unwrap().len() > 100_000_000);
    let seen = ferry.run(args!["inspect", input]).expect(0);
    let lines = seen.stdout.lines().count() + seen.stderr.lines().count();
    assert!(lines <= SCREEN, "{lines} lines: {seen}");
    seen.prints(&[
        "F32: ",
        "BF16: 1, ",
        "epoch: 12",
        "global_step: 34567",
        "model_state_dict: 88 tensors, ",
        "optimizer_state_dict: 264 tensors, ",
        "param_groups: ",
        "[2 values], the first lr=0.0001, betas=",
        "args: argparse.Namespace: lr=0.1",
        "embedding.weight",
        "88 tensors kept; left out:",
        "scheduler_state_dict",
    ]);
}
