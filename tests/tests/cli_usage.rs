//! What the user got wrong: exit code 2, with what to do instead.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use tempfile::{TempDir, tempdir};
use tensorferry_tests::ferry::names_in;
use tensorferry_tests::model::safetensors;
use tensorferry_tests::{Ferry, Outcome};

/// Converts a small file with these arguments; nothing may be left but the input.
fn refused(arguments: &[&str]) -> Outcome {
    let (folder, input) = small();
    let mut command = vec!["convert".to_owned(), input.display().to_string()];
    command.extend(
        arguments.iter().map(|argument| argument.replace("DIR", &folder.path().display().to_string())),
    );
    let outcome = Ferry::new().run(command).expect(2);
    assert_eq!(names_in(folder.path()), ["small.safetensors"], "{outcome}");
    assert_eq!(outcome.stdout, "", "{outcome}");
    outcome
}

fn small() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let input = folder.path().join("small.safetensors");
    std::fs::write(&input, safetensors(&[("w", "F32", &[2], &[0; 8])])).unwrap();
    (folder, input)
}

#[test]
fn an_ambiguous_suffix_names_the_candidates() {
    for output in ["DIR/out.bin", "DIR/out.ckpt", "DIR/out", "DIR/out.unknown"] {
        refused(&[output]).says(&["--to", "torch", "safetensors"]);
    }
}

#[test]
fn an_unknown_format_is_named() {
    refused(&["DIR/out.pt", "--to", "savetensors"]).says(&["savetensors", "safetensors"]);
    refused(&["DIR/out.pt", "--from", "toch"]).says(&["toch", "torch"]);
}

#[test]
fn an_option_of_the_other_side_names_the_right_flag() {
    refused(&["DIR/out.safetensors", "-i", "max_shard_size=1MB"]).says(&["max_shard_size", "-o"]);
}

#[test]
fn an_unknown_option_names_those_there_are() {
    refused(&["DIR/out.safetensors", "-o", "max_shard_sice=1MB"]).says(&["max_shard_sice", "max_shard_size"]);
    refused(&["DIR/out.safetensors", "-o", "tied=perhaps"]).says(&["tied", "dedupe"]);
    refused(&["DIR/out.safetensors", "-o", "max_shard_size"]).says(&["KEY=VALUE"]);
}

#[test]
fn unknown_words_are_refused() {
    refused(&["DIR/out.safetensors", "--no-such-flag"]).says(&["--no-such-flag"]);
    refused(&["DIR/out.safetensors", "--strict", "--allow-loss", "tensors"]).says(&["tensors", "tensor"]);
    Ferry::new().run(["concert"]).expect(2).says(&["convert"]);
}

#[test]
fn an_existing_output_is_kept_unless_forced() {
    let ferry = Ferry::new();
    let (folder, input) = small();
    let output = folder.path().join("out.pt");
    std::fs::write(&output, "mine").unwrap();
    let command = ["convert".as_ref(), input.as_os_str(), output.as_os_str()];
    ferry.run(command).expect(2).says(&["--force", "out.pt"]);
    assert_eq!(std::fs::read(&output).unwrap(), b"mine");
    assert_eq!(names_in(folder.path()), ["out.pt", "small.safetensors"]);
    ferry.convert(&input, &output, &["--force"]);
    assert!(ferry.equal(&input, &output));
    assert_eq!(names_in(folder.path()), ["out.pt", "small.safetensors"]);
}

#[test]
fn an_input_that_is_not_there_is_named() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let missing = folder.path().join("missing.safetensors");
    let outcome = ferry.run(["inspect".as_ref(), missing.as_os_str()]);
    assert!(matches!(outcome.code, Some(2 | 5)), "{outcome}");
    outcome.says(&["missing.safetensors"]);
}

#[test]
fn an_input_that_no_format_knows_is_malformed() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let input = folder.path().join("notes.txt");
    std::fs::write(&input, "nothing of the sort").unwrap();
    ferry.run(["inspect".as_ref(), input.as_os_str()]).expect(3).says(&["notes.txt"]);
}
