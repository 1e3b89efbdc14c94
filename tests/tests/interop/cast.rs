//! Tests that casts produce the same values as torch.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tensorferry_test_kit::random::bytes;
use tensorferry_tests::model::{Tensors, safetensors};
use tensorferry_tests::{Ferry, Outcome, args, python};

/// Dtypes with their names in ferry and in torch.
const FLOATS: [(&str, &str); 9] = [
    ("F64", "float64"),
    ("F32", "float32"),
    ("F16", "float16"),
    ("BF16", "bfloat16"),
    ("F8_E4M3", "float8_e4m3fn"),
    ("F8_E5M2", "float8_e5m2"),
    ("F8_E4M3FNUZ", "float8_e4m3fnuz"),
    ("F8_E5M2FNUZ", "float8_e5m2fnuz"),
    ("F8_E8M0", "float8_e8m0fnu"),
];

const INTEGERS: [(&str, &str); 8] = [
    ("U8", "uint8"),
    ("I8", "int8"),
    ("U16", "uint16"),
    ("I16", "int16"),
    ("U32", "uint32"),
    ("I32", "int32"),
    ("U64", "uint64"),
    ("I64", "int64"),
];

/// Casts every tensor of a file to each of `targets`, and compares each with torch.
fn same_as_torch(tensors: Tensors<'_>, targets: &[(&str, &str)]) -> Vec<Value> {
    let ferry = Ferry::new();
    let input = ferry.safetensors("input.safetensors", tensors);
    let compare = |&(dtype, word): &(&str, &str)| {
        let output = ferry.at(format!("{word}.safetensors"));
        ferry.convert(&input, &output, &["--step", &format!("cast:{dtype},only=any")]);
        let compared = python::script("cast_check.py", args![input, output, word]).json();
        std::fs::remove_file(output).unwrap();
        compared
    };
    targets.iter().map(compare).collect()
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn every_small_float_becomes_what_torch_makes_of_it() {
    let all_16: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let all_8: Vec<u8> = (0..=u8::MAX).collect();
    let tensors: Vec<(&str, &str, &[u64], &[u8])> = FLOATS
        .iter()
        .filter(|(dtype, _)| !matches!(*dtype, "F64" | "F32"))
        .map(|(dtype, word)| {
            let (shape, bytes): (&[u64], &[u8]) =
                if dtype.ends_with("16") { (&[256, 256], &all_16) } else { (&[256], &all_8) };
            (*word, *dtype, shape, bytes)
        })
        .collect();
    let targets = [&FLOATS[..], &INTEGERS[..], &[("BOOL", "bool")]].concat();
    for compared in same_as_torch(&tensors, &targets) {
        assert_eq!(compared["tensors"], 7, "{compared}");
        assert_eq!(compared["values"], 2 * 65536 + 5 * 256, "{compared}");
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn random_singles_become_what_torch_makes_of_them() {
    let values = bytes(4 << 24, 41);
    for compared in same_as_torch(&[("x", "F32", &[1 << 12, 1 << 12], &values)], &FLOATS) {
        assert_eq!(compared["values"], 1 << 24, "{compared}");
    }
    for compared in same_as_torch(&[("x", "F32", &[1 << 20], &values[..4 << 20])], &INTEGERS) {
        assert!(compared["clamped"].as_u64().unwrap() > 0, "{compared}");
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn doubles_are_rounded_once() {
    // Test random values, and values close to the midpoint of two adjacent small floats, where
    // torch rounds twice.
    let mut near = Vec::new();
    for index in 0..1_u64 << 12 {
        // The upper bits of the significands are 0 to 4095, and the exponents are 2^-20 to 2^15.
        let exponent = 1003 + index % 36;
        for digits in [7, 10, 3, 2] {
            let upper = index << 52 >> digits;
            let middle = 1 << (51 - digits);
            for apart in [-1_i64, 0, 1] {
                let significand = (upper | middle) & ((1 << 52) - 1);
                let bits = (exponent << 52 | significand).wrapping_add_signed(apart);
                near.extend(f64::from_bits(bits).to_le_bytes());
            }
        }
    }
    let count = near.len() as u64 / 8;
    let values = bytes(8 << 16, 43);
    let tensors: [(&str, &str, &[u64], &[u8]); 2] =
        [("random", "F64", &[1 << 16], &values), ("near", "F64", &[count], &near)];
    let compared = same_as_torch(&tensors, &[&FLOATS[1..], &INTEGERS[..]].concat());
    let nearer: u64 = compared[1..3].iter().map(|compared| compared["nearer"].as_u64().unwrap()).sum();
    assert!(nearer > 100, "torch is always exact: {compared:?}");
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn integers_become_what_torch_makes_of_them() {
    let values = bytes(8 << 16, 47);
    let tensors: Vec<(&str, &str, &[u64], &[u8])> = [
        ("U8", 8_u64 << 16),
        ("I8", 8 << 16),
        ("I16", 4 << 16),
        ("U16", 4 << 16),
        ("I32", 2 << 16),
        ("U32", 2 << 16),
        ("I64", 1 << 16),
        ("U64", 1 << 16),
    ]
    .iter()
    .map(|(dtype, count)| (*dtype, *dtype, std::slice::from_ref(count), &values[..]))
    .collect();
    let targets = [&FLOATS[..4], &INTEGERS[..], &[("BOOL", "bool")]].concat();
    let compared = same_as_torch(&tensors, &targets);
    assert!(compared.iter().all(|compared| compared["tensors"] == 8), "{compared:?}");
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn small_floats_are_also_ml_dtypes() {
    let ferry = Ferry::new();
    let [input, output] = ferry.paths(["input.safetensors", "output.safetensors"]);
    let values = bytes(4 << 20, 53);
    std::fs::write(&input, safetensors(&[("x", "F32", &[1 << 20], &values)])).unwrap();
    for (dtype, word) in [
        ("f8_e4m3b11fnuz", "float8_e4m3b11fnuz"),
        ("f8_e4m3fnuz", "float8_e4m3fnuz"),
        ("f8_e5m2fnuz", "float8_e5m2fnuz"),
        ("f8_e5m2", "float8_e5m2"),
        ("bf16", "bfloat16"),
    ] {
        let cast = format!("cast:{dtype}");
        ferry.convert(&input, &output, &["--step", &cast, "--step", "cast:f32", "--force"]);
        let compared = python::script("cast_ml_dtypes.py", args![input, output, word]).json();
        assert_eq!(compared["values"], 1 << 20);
    }
}

/// Converts with `--json`, and writes the report to a file.
fn report(ferry: &Ferry, input: &Path, output: &Path, options: &[&str]) -> (PathBuf, Outcome) {
    let outcome = ferry.convert(input, output, &[&["--json"], options].concat());
    let path = output.with_extension("report.json");
    std::fs::write(&path, &outcome.stdout).unwrap();
    (path, outcome)
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn views_are_cast_and_counted_element_by_element() {
    let ferry = Ferry::new();
    let views = ferry.at("views.pt");
    python::script("make_views.py", [&views]);
    for (dtype, word, output) in [
        ("bf16", "bfloat16", "bf16.safetensors"),
        ("f8_e4m3", "float8_e4m3fn", "f8.safetensors"),
        ("f16", "float16", "f16.pt"),
    ] {
        let output = ferry.at(output);
        let cast = format!("cast:{dtype}");
        // A small budget divides gathers into tiles. `--verify` adds a second pass, which must not
        // count values again.
        let options = ["--step", &cast, "--memory", "16MiB", "--verify"];
        let (losses, outcome) = report(&ferry, &views, &output, &options);
        assert_eq!(outcome.json()["verified"], true);
        let arguments = args![views, output, word, losses];
        let compared = python::script("cast_views.py", arguments).json();
        assert!(compared["lost"].as_u64().unwrap() >= 30, "{compared}");
    }
}

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn a_sharded_model_that_is_cast_loads() {
    let ferry = Ferry::new();
    let model = ferry.at("in");
    std::fs::create_dir(&model).unwrap();
    let weights: Vec<u8> =
        (0..1_u16 << 14).flat_map(|value| (f32::from(value) / 7.0).to_le_bytes()).collect();
    let file = safetensors(&[
        ("a", "F32", &[1 << 13], &weights[..4 << 13]),
        ("b", "F32", &[1 << 13], &weights[4 << 13..]),
    ]);
    std::fs::write(model.join("model.safetensors"), file).unwrap();
    let config = "{\n  \"torch_dtype\": \"float32\",\n  \"hidden\": 7,\n  \"eps\": 1.0e-05\n}";
    std::fs::write(model.join("config.json"), config).unwrap();
    let shards = ferry.at("shards/");
    let options = ["--to", "safetensors", "--step", "cast:bf16", "-o", "max_shard_size=20KB", "--json"];
    let report = ferry.convert(&model, &shards, &options).json();
    assert!(report["notes"].to_string().contains("bfloat16"), "{report}");
    let written = std::fs::read_to_string(shards.join("config.json")).unwrap();
    assert_eq!(written, config.replace("float32", "bfloat16"));
    let seen = python::script("see.py", [shards.join("model.safetensors.index.json")]).json();
    assert_eq!(seen["tensors"]["b"][0], json!("BF16"));
}
