//! What a cast says of the values that it changes, and what `--strict` makes of that.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::{Outcome, names_in};
use tensorferry_tests::model::safetensors;

/// Of 1,000 values 990 are rounded, and of five others one overflows and one vanishes; `half` and
/// `counts` lose nothing in BF16.
fn model() -> (TempDir, PathBuf) {
    let many: Vec<u8> = (0..1000_u32).flat_map(|i| (0x3f80_0000 + i * 100 % 65536).to_le_bytes()).collect();
    let special = [f32::MAX, 1e-42, 1.0, f32::INFINITY, f32::NAN].map(f32::to_le_bytes).concat();
    let half = [0x3c00_u16, 0xc000, 0].map(u16::to_le_bytes).concat();
    let counts = [1_i64, -1].map(i64::to_le_bytes).concat();
    let file = safetensors(&[
        ("many", "F32", &[10, 100], &many),
        ("special", "F32", &[5], &special),
        ("half", "F16", &[3], &half),
        ("counts", "I64", &[2], &counts),
    ]);
    let folder = tempdir().unwrap();
    let path = folder.path().join("in.safetensors");
    std::fs::write(&path, file).unwrap();
    (folder, path)
}

fn convert(ferry: &Ferry, input: &Path, output: &Path, options: &[&str]) -> Outcome {
    let mut arguments: Vec<&OsStr> = vec!["convert".as_ref(), input.as_ref(), output.as_ref()];
    arguments.extend(options.iter().map(OsStr::new));
    ferry.run(arguments)
}

fn why(report: &Value, name: &str) -> String {
    let losses = report["losses"].as_array().unwrap();
    let found: Vec<&Value> = losses.iter().filter(|loss| loss["what"] == name).collect();
    assert_eq!(found.len(), 1, "{report}");
    assert_eq!(found[0]["kind"], "precision");
    found[0]["why"].as_str().unwrap().to_owned()
}

#[test]
fn values_are_counted_once_however_often_they_are_read() {
    let (folder, input) = model();
    let output = folder.path().join("out.safetensors");
    let rounded = (0..1000_u32).filter(|i| i * 100 % 65536 != 0).count();
    for options in
        [&["--step", "cast:bf16", "--json"][..], &["--step", "cast:bf16", "--json", "--verify", "--force"]]
    {
        let report = convert(&Ferry::new(), &input, &output, options).expect(0).json();
        assert_eq!(report["losses"].as_array().unwrap().len(), 2, "{report}");
        assert_eq!(
            why(&report, "many"),
            format!("cast from F32 to BF16: of 1000 values {rounded} were rounded")
        );
        let special = "cast from F32 to BF16: of 5 values 1 overflowed to infinity, 1 underflowed to zero";
        assert_eq!(why(&report, "special"), special);
    }
}

#[test]
fn strict_ends_before_the_commit() {
    let (folder, input) = model();
    let ferry = Ferry::new();
    let output = folder.path().join("out.safetensors");
    let cast = ["--step", "cast:bf16", "--strict"];
    convert(&ferry, &input, &output, &cast).expect(3).says(&[
        "precision",
        "\"many\"",
        "--allow-loss precision",
    ]);
    assert_eq!(names_in(folder.path()), ["in.safetensors"]);
    convert(&ferry, &input, &output, &[&cast[..], &["--allow-loss", "alias"]].concat()).expect(3);
    convert(&ferry, &input, &output, &[&cast[..], &["--allow-loss", "precision"]].concat()).expect(0);
    // Where no value can be lost, and where none was.
    for exact in ["cast:f64", "cast:bf16,where=half"] {
        convert(&ferry, &input, &output, &["--step", exact, "--strict", "--force"]).expect(0);
    }
    convert(&ferry, &input, &output, &["--step", "cast:i8", "--strict", "--force", "--dry-run"]).expect(0);
}

#[test]
fn a_dry_run_says_what_may_be_lost() {
    let (folder, input) = model();
    let output = folder.path().join("out.safetensors");
    let options = ["--step", "cast:bf16", "--dry-run", "--json", "--strict"];
    let report = convert(&Ferry::new(), &input, &output, &options).expect(0).json();
    assert_eq!(report["losses"], json!([]));
    let notes = report["notes"].to_string();
    assert!(notes.contains("2 tensors are cast from F32 to BF16"), "{notes}");
    assert!(notes.contains("1 tensors are cast from F16 to BF16"), "{notes}");
    // 1,008 of two bytes, two of eight, and the header.
    assert!(report["bytes"].as_u64().unwrap() < 3000, "{report}");
}

#[test]
fn a_cast_model_differs_by_its_step_alone() {
    let (folder, input) = model();
    let ferry = Ferry::new();
    let output = folder.path().join("out.pt");
    convert(&ferry, &input, &output, &["--step", "cast:bf16"]).expect(0);
    assert!(!ferry.equal(&input, &output));
    let arguments: [&OsStr; 5] =
        ["diff".as_ref(), input.as_ref(), output.as_ref(), "--step".as_ref(), "cast:bf16".as_ref()];
    ferry.run(arguments).expect(0);
}
