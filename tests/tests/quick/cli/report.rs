//! Tests of the program's output: only the result on stdout, one JSON document with `--json`, and
//! losses by kind.

use serde_json::Value;
use std::path::PathBuf;
use tensorferry_tests::Ferry;
use tensorferry_tests::model::Model;

fn case(name: &str) -> PathBuf {
    tensorferry_tests::fixtures::case("torch", name).input()
}

fn keys(document: &Value) -> Vec<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn convert_reports_what_the_contract_names() {
    let ferry = Ferry::new();
    let report = ferry.convert(&case("zip_many_small"), &ferry.at("out.safetensors"), &["--json"]).json();
    for key in ["input", "output", "tensors", "bytes", "seconds", "verified", "losses", "files"] {
        assert!(keys(&report).contains(&key), "no {key}: {report}");
    }
    assert_eq!(report["tensors"], 500);
    assert!(
        report["seconds"].is_f64() && report["bytes"].is_u64() && report["losses"].is_array(),
        "{report}"
    );
    assert_eq!(report["files"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["verified"], false);
}

/// Tests that any command that fails with `--json` prints exactly one JSON document.
#[test]
fn a_failure_is_a_document_too() {
    let ferry = Ferry::new();
    let input = ferry.safetensors("m.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    let cut = ferry.write("cut.safetensors", &std::fs::read(&input).unwrap()[..40]);
    let error = |outcome: tensorferry_tests::ferry::Outcome, code: i32, kind: &str| {
        let outcome = outcome.expect(code);
        assert_eq!(outcome.stdout.lines().count(), 1, "{outcome}");
        assert!(outcome.stderr.contains("error: "), "{outcome}");
        let error = outcome.json()["error"].clone();
        let mut known = keys(&error);
        known.sort_unstable();
        let named =
            ["column", "expected", "file", "found", "hint", "kind", "message", "offset", "record", "tensor"];
        assert_eq!(known, named);
        assert_eq!(error["kind"], kind, "{error}");
        error
    };
    let malformed = error(ferry.try_convert(&cut, &ferry.at("x.pt"), &["--json"]), 3, "malformed");
    assert_eq!(malformed["file"], "cut.safetensors");
    assert!(malformed["offset"].is_u64() && malformed["tensor"].is_null(), "{malformed}");
    error(ferry.on("inspect", ferry.at("none"), &["--json"]), 2, "usage");
    let misspelt = error(ferry.on("inspect", &input, &["--json", "--digets", "sha256"]), 2, "usage");
    assert!(misspelt["message"].as_str().unwrap().contains("--digets"), "{misspelt}");
    assert!(misspelt["hint"].as_str().unwrap().contains("--digest"), "{misspelt}");
    // For `verify`, the normal document contains the problem.
    let unproved = ferry.on("verify", &input, &["--json"]).expect(4);
    assert_eq!(unproved.json()["ok"], false);
}

#[test]
fn verify_says_that_it_did() {
    let ferry = Ferry::new();
    let report =
        ferry.convert(&case("zip_views"), &ferry.at("out.safetensors"), &["--json", "--verify"]).json();
    assert_eq!(report["verified"], true);
}

#[test]
fn inspect_reports_what_the_contract_names() {
    let ferry = Ferry::new();
    let input = case("zip_module_state_dict");
    let without = ferry.on("inspect", &input, &["--json"]).expect(0).json();
    for key in ["format", "tensors", "metadata", "losses", "globals"] {
        assert!(keys(&without).contains(&key), "no {key}: {without}");
    }
    let tensor = &without["tensors"][0];
    assert!(tensor["name"].is_string() && tensor["bytes"].is_u64() && tensor["shape"].is_array(), "{tensor}");
    assert!(tensor["digest"].is_null(), "a digest that was not requested: {tensor}");
    let with = ferry.on("inspect", &input, &["--json", "--digest", "blake3"]).expect(0).json();
    assert_eq!(with["tensors"][0]["digest"]["blake3"].as_str().unwrap().len(), 64);
}

#[test]
fn a_dry_run_writes_nothing() {
    let ferry = Ferry::new();
    for output in ["out.safetensors", "new/", "new/deep/out.safetensors"] {
        ferry.convert(&case("zip_views"), &ferry.at(output), &["--dry-run", "--to", "safetensors"]);
        let json = ["--dry-run", "--json", "--to", "safetensors"];
        let report = ferry.convert(&case("zip_views"), &ferry.at(output), &json).json();
        assert_eq!(report["tensors"], 15);
        assert!(ferry.names().is_empty(), "{output} left {:?}", ferry.names());
    }
}

#[test]
fn losses_are_said_and_strict_refuses_them() {
    let ferry = Ferry::new();
    let output = ferry.at("out.safetensors");
    let input = case("zip_all_dtypes");
    let outcome = ferry.try_convert(&input, &output, &["--strict"]).expect(3);
    assert_eq!(outcome.says(&["t_complex32", "--allow-loss tensor"]).stdout, "");
    assert!(ferry.names().is_empty());

    ferry.convert(&input, &output, &["--strict", "--allow-loss", "tensor"]).says(&["tensor", "t_complex128"]);
    let report = ferry.convert(&input, &output, &["--force", "--json"]).json();
    let losses = report["losses"].as_array().unwrap();
    let lost: Vec<_> = losses.iter().filter(|loss| loss["kind"] == "tensor").collect();
    assert_eq!(lost.len(), 8, "{losses:?}");
    // By default, losses are printed as one line per cause. An option prints one line per loss.
    let lines = |options: &[&str]| {
        let said = ferry.convert(&input, &output, &[&["--force"], options].concat()).stderr;
        said.lines().filter(|line| line.starts_with("lost: ") || line.starts_with("changed: ")).count()
    };
    assert!(lines(&[]) < losses.len(), "{}", lines(&[]));
    assert_eq!(lines(&["--losses"]), losses.len());
    for loss in losses {
        assert!(loss["what"].is_string() && loss["why"].is_string(), "{loss}");
        assert!(["lost", "changed", "note"].iter().any(|word| loss["severity"] == *word), "{loss}");
    }
    assert!(lost.iter().all(|loss| loss["severity"] == "lost" && loss["asked"] == false), "{losses:?}");
}

#[test]
fn a_sparse_tensor_in_parts_is_said() {
    let ferry = Ferry::new();
    let output = ferry.at("out.safetensors");
    let losses = ferry.convert(&case("zip_sparse_csr"), &output, &["--json"]).json()["losses"].clone();
    let sparse: Vec<_> = losses.as_array().unwrap().iter().filter(|loss| loss["kind"] == "sparse").collect();
    assert!(!sparse.is_empty() && sparse.iter().all(|loss| loss["severity"] == "changed"), "{losses}");
}

#[test]
fn progress_is_for_terminals() {
    let ferry = Ferry::new();
    let model = ferry.model("model.safetensors", &Model::of_size(64 << 20, 30, 1));
    for (output, options) in [("a.pt", &[][..]), ("b.pt", &["--quiet"])] {
        let outcome = ferry.convert(&model, &ferry.at(output), options);
        assert!(!outcome.stderr.contains('\r') && !outcome.stderr.contains('\u{1b}'), "{outcome}");
        assert!(!outcome.stdout.contains('\r') && !outcome.stdout.contains('\u{1b}'), "{outcome}");
        if options.contains(&"--quiet") {
            assert_eq!(outcome.stderr, "");
        }
    }
}

#[test]
fn formats_lists_what_can_be_read_and_written() {
    let ferry = Ferry::new();
    let table = ferry.run(["formats"]).expect(0).stdout;
    let one = ferry.run(["formats", "safetensors"]).expect(0).stdout;
    let json = ferry.run(["formats", "--json"]).expect(0).json().to_string();
    for (text, word) in [
        (&table, "safetensors"),
        (&table, "torch"),
        (&one, "max_shard_size"),
        (&one, "tied"),
        (&one, "codes"),
    ] {
        assert!(text.contains(word), "no {word}: {text}");
        assert!(json.contains(&format!("{word:?}")), "no {word}: {json}");
    }
    // Each format takes one line, which fits in a terminal of 120 columns.
    assert_eq!(table.lines().filter(|line| line.starts_with("torch")).count(), 2, "{table}");
    assert!(table.lines().chain(one.lines()).all(|line| line.chars().count() <= 120), "{table}{one}");
    ferry.run(["formats", "safetensor"]).expect(2).says(&["did you mean \"safetensors\"?"]);
    ferry.run(["man"]).expect(0).prints(&[".TH ferry 1", "convert"]);
}

#[test]
fn completions_are_printed() {
    let ferry = Ferry::new();
    for shell in ["bash", "zsh", "fish"] {
        ferry.run(["completions", shell]).expect(0).prints(&["inspect", "allow-loss"]);
    }
}

#[test]
fn help_names_every_command() {
    let ferry = Ferry::new();
    let help = ferry.run(["--help"]).expect(0).stdout;
    for command in ["convert", "inspect", "diff", "check", "formats", "plugin"] {
        assert!(help.contains(command), "no {command}: {help}");
        assert!(ferry.run([command, "--help"]).expect(0).stdout.len() > 200);
    }
    ferry.run(["--version"]).expect(0).prints(&[env!("CARGO_PKG_VERSION")]);
}
