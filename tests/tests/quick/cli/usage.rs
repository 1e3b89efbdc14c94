//! Tests that user mistakes end with exit code 2 and a hint.

use std::path::PathBuf;
use tensorferry_tests::{Ferry, Outcome, args};

/// Converts a small file with these arguments, and checks that only the input is left.
fn refused(arguments: &[&str]) -> Outcome {
    let ferry = Ferry::new();
    let home = ferry.home().display().to_string();
    let arguments = arguments.iter().map(|argument| argument.replace("DIR", &home));
    let outcome =
        tensorferry_tests::ferry::run(ferry.command(args!["convert", small(&ferry)]).args(arguments));
    assert_eq!(ferry.names(), ["small.safetensors"], "{outcome}");
    assert_eq!(outcome.stdout, "", "{outcome}");
    outcome.expect(2)
}

fn small(ferry: &Ferry) -> PathBuf {
    ferry.safetensors("small.safetensors", &[("w", "F32", &[2], &[0; 8])])
}

#[test]
fn an_ambiguous_suffix_names_the_candidates() {
    for output in ["DIR/out.pb", "DIR/out", "DIR/out.unknown"] {
        refused(&[output]).says(&["--to", "torch", "safetensors"]);
    }
    // If the input is a TensorFlow checkpoint, these suffixes are ambiguous between TensorFlow and
    // PyTorch. For other inputs, they mean PyTorch.
    let ferry = Ferry::new();
    let checkpoint = tensorferry_tests::fixtures::case("tf", "saver_v2_plain").folder.join("model.ckpt-42");
    for name in ["pytorch_model.bin", "x.ckpt", "X.PT"] {
        let output = ferry.at(name);
        if name != "X.PT" {
            ferry.try_convert(&checkpoint, &output, &[]).expect(2).says(&["--to", "torch", "tf-bundle"]);
        }
        ferry.convert(&small(&ferry), &output, &[]);
        assert_eq!(ferry.inspect(&output)["format"], "torch", "{name}");
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

/// Tests that commands and options of other programs produce a hint with the matching ferry
/// command.
#[test]
fn habits_of_other_programs_are_answered() {
    let ferry = Ferry::new();
    let input = small(&ferry).display().to_string();
    ferry.write("zoo.toml", "[[job]]\ninput = \"a\"\noutput = \"b\"\n");
    let zoo = ferry.at("zoo.toml").display().to_string();
    let (convert, inspect) = (format!(" convert {input} m.pt`"), format!(" inspect {input}`"));
    let cases: [(&[&str], &str); 9] = [
        (&["convert", &input, "-o", "m.pt"], &convert),
        (&["convert", &input, "-om.pt"], &convert),
        (&[&input, "m.pt"], &convert),
        (&[&input], &inspect),
        (&["version"], "run `ferry --version`"),
        (&["convert", &input, "m.pt", "--step", "bf16"], "pass --step cast:bf16"),
        (&["convert", &input, "m.pt", "--step", "cast=bf16"], "pass --step cast:bf16"),
        (&["convert", &input, "m.gguf", "--quantize", "q8_0"], "pass -o quantize=q8_0"),
        (&["convert", &input, "m.gguf", "--quantize=Q4_K_M"], "llama-quantize model.gguf Q4_K_M"),
    ];
    for (arguments, hint) in cases {
        ferry.run(arguments).expect(2).says(&["hint: ", hint]);
    }
    ferry.run(["inspect", &zoo]).expect(2).says(&["is a manifest", "run `ferry run zoo.toml`"]);
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
    let (input, output) = (small(&ferry), ferry.write("out.pt", "mine"));
    ferry.try_convert(&input, &output, &[]).expect(2).says(&["--force", "out.pt"]);
    assert_eq!(std::fs::read(&output).unwrap(), b"mine");
    assert_eq!(ferry.names(), ["out.pt", "small.safetensors"]);
    ferry.convert(&input, &output, &["--force"]);
    assert!(ferry.equal(&input, &output));
    assert_eq!(ferry.names(), ["out.pt", "small.safetensors"]);
}

#[test]
fn an_input_that_is_not_there_is_named() {
    let ferry = Ferry::new();
    let outcome = ferry.on("inspect", ferry.at("missing.safetensors"), &[]);
    assert!(matches!(outcome.code, Some(2 | 5)), "{outcome}");
    outcome.says(&["missing.safetensors"]);
}

#[test]
fn an_input_that_no_format_knows_is_malformed() {
    let ferry = Ferry::new();
    let input = ferry.write("notes.txt", "nothing of the sort");
    ferry.on("inspect", input, &[]).expect(3).says(&["notes.txt"]);
}
