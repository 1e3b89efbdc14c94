//! Tests of the reports about values that a cast changes, and of the effect of `--strict`.

use serde_json::{Value, json};
use std::path::PathBuf;
use tensorferry_test_kit::random::bytes;
use tensorferry_tests::Ferry;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::model::Tensors;
use tensorferry_tests::mutate::flip_middle;

/// Writes a model. A cast rounds 990 of 1,000 values. Of five other values, one overflows and one
/// becomes zero. `half` and `counts` lose nothing in BF16.
fn model(ferry: &Ferry) -> PathBuf {
    let many: Vec<u8> = (0..1000_u32).flat_map(|i| (0x3f80_0000 + i * 100 % 65536).to_le_bytes()).collect();
    let special = [f32::MAX, 1e-42, 1.0, f32::INFINITY, f32::NAN].map(f32::to_le_bytes).concat();
    let half = [0x3c00_u16, 0xc000, 0].map(u16::to_le_bytes).concat();
    let counts = [1_i64, -1].map(i64::to_le_bytes).concat();
    let tensors: Tensors<'_> = &[
        ("many", "F32", &[10, 100], &many),
        ("special", "F32", &[5], &special),
        ("half", "F16", &[3], &half),
        ("counts", "I64", &[2], &counts),
    ];
    ferry.safetensors("in.safetensors", tensors)
}

fn loss<'a>(report: &'a Value, name: &str) -> &'a Value {
    let losses = report["losses"].as_array().unwrap();
    let found: Vec<&Value> = losses.iter().filter(|loss| loss["what"] == name).collect();
    assert_eq!(found.len(), 1, "{report}");
    assert_eq!(found[0]["kind"], "precision");
    found[0]
}

fn why(report: &Value, name: &str) -> String {
    loss(report, name)["why"].as_str().unwrap().to_owned()
}

#[test]
fn values_are_counted_once_however_often_they_are_read() {
    let ferry = Ferry::new();
    let input = model(&ferry);
    let output = ferry.at("out.safetensors");
    let rounded = (0..1000_u32).filter(|i| i * 100 % 65536 != 0).count();
    for options in
        [&["--step", "cast:bf16", "--json"][..], &["--step", "cast:bf16", "--json", "--verify", "--force"]]
    {
        let report = ferry.convert(&input, &output, options).json();
        assert_eq!(report["losses"].as_array().unwrap().len(), 2, "{report}");
        assert_eq!(
            why(&report, "many"),
            format!("cast from F32 to BF16: of 1000 values {rounded} were rounded")
        );
        let special = "cast from F32 to BF16: of 5 values 1 overflowed to infinity, 1 underflowed to zero";
        assert_eq!(why(&report, "special"), special);
        let severity = |what| loss(&report, what)["severity"].as_str().unwrap();
        assert_eq!([severity("many"), severity("special")], ["changed", "lost"], "{report}");
        assert!(report["losses"].as_array().unwrap().iter().all(|loss| loss["asked"] == true), "{report}");
    }
}

#[test]
fn strict_ends_before_the_commit() {
    let ferry = Ferry::new();
    let input = model(&ferry);
    let output = ferry.at("out.safetensors");
    let cast = ["--step", "cast:bf16", "--strict"];
    ferry.try_convert(&input, &output, &cast).expect(3).says(&[
        "precision",
        "\"special\"",
        "--allow-loss precision",
    ]);
    assert_eq!(ferry.names(), ["in.safetensors"]);
    ferry.try_convert(&input, &output, &[&cast[..], &["--allow-loss", "alias"]].concat()).expect(3);
    ferry.convert(&input, &output, &[&cast[..], &["--allow-loss", "precision"]].concat());
    // Three cases: no value can be lost, no value was lost, and rounding was requested.
    for exact in ["cast:f64", "cast:bf16,where=half", "cast:bf16,where=many"] {
        ferry.convert(&input, &output, &["--step", exact, "--strict", "--force"]);
    }
    ferry.convert(&input, &output, &["--step", "cast:i8", "--strict", "--force", "--dry-run"]);
}

#[test]
fn a_dry_run_says_what_may_be_lost() {
    let ferry = Ferry::new();
    let input = model(&ferry);
    let output = ferry.at("out.safetensors");
    let options = ["--step", "cast:bf16", "--dry-run", "--json", "--strict"];
    let report = ferry.convert(&input, &output, &options).json();
    assert_eq!(report["losses"], json!([]));
    let notes = report["notes"].to_string();
    assert!(notes.contains("2 tensors are cast from F32 to BF16"), "{notes}");
    assert!(notes.contains("1 tensors are cast from F16 to BF16"), "{notes}");
    // The output has 1,008 values of two bytes, two values of eight bytes, and the header.
    assert!(report["bytes"].as_u64().unwrap() < 3000, "{report}");
}

#[test]
fn a_cast_model_differs_by_its_step_alone() {
    let ferry = Ferry::new();
    let input = model(&ferry);
    let output = ferry.at("out.pt");
    ferry.convert(&input, &output, &["--step", "cast:bf16"]);
    assert!(!ferry.equal(&input, &output));
    ferry.diff(&input, &output, &["--step", "cast:bf16"]).expect(0);
}

#[test]
fn what_was_big_endian_is_cast() {
    let ferry = Ferry::new();
    let case = case("torch", "zip_big_endian");
    let [plain, cast, twice] = ferry.paths(["plain.pt", "cast.safetensors", "twice.safetensors"]);
    ferry.convert(&case.input(), &plain, &[]);
    ferry.convert(&case.input(), &cast, &["--step", "cast:f16"]);
    ferry.convert(&plain, &twice, &["--step", "cast:f16"]);
    assert!(ferry.equal(&cast, &twice));
    assert!(!ferry.equal(&plain, &cast), "nothing was cast");
}

#[test]
fn a_cast_checkpoint_of_tensorflow_is_checked_against_its_checksums() {
    let ferry = Ferry::new();
    let [model, cast, expected] =
        ferry.paths(["model.safetensors", "cast.safetensors", "expected.safetensors"]);
    ferry.safetensors("model.safetensors", &[("x", "F32", &[1 << 19], &bytes(4 << 19, 59))]);
    let bundle = ferry.at("bundle");
    ferry.convert(&model, &bundle, &["--to", "tf-bundle"]);
    ferry.convert(&bundle, &cast, &["--step", "cast:bf16"]);
    ferry.convert(&model, &expected, &["--step", "cast:bf16"]);
    assert!(ferry.equal(&cast, &expected));
    let data = ferry.at("bundle.data-00000-of-00001");
    flip_middle(&data);
    ferry
        .try_convert(&bundle, &cast, &["--force", "--step", "cast:bf16"])
        .expect(3)
        .says(&["crc32c", "\"x\""]);
    ferry.diff(&bundle, &expected, &[]).expect(3).says(&["crc32c"]);
}
