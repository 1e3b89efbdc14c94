//! Casts give torch's values.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::tempdir;
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::model::safetensors;
use tensorferry_tests::random::Random;
use tensorferry_tests::{Ferry, python};

/// Dtypes as ferry and as torch call them.
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

/// Casts every tensor of a file to each of `targets`, and compares each with torch's.
fn same_as_torch(tensors: &[(&str, &str, &[u64], &[u8])], targets: &[(&str, &str)]) -> Vec<Value> {
    let folder = tempdir().unwrap();
    let ferry = Ferry::new();
    let input = folder.path().join("input.safetensors");
    std::fs::write(&input, safetensors(tensors)).unwrap();
    let compare = |&(dtype, word): &(&str, &str)| {
        let output = folder.path().join(format!("{word}.safetensors"));
        ferry.convert(&input, &output, &["--step", &format!("cast:{dtype},only=any")]);
        let compared =
            python::script("cast_check.py", [input.as_os_str(), output.as_ref(), word.as_ref()]).json();
        std::fs::remove_file(output).unwrap();
        compared
    };
    targets.iter().map(compare).collect()
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut values = vec![0; bytes];
    Random::new(seed).fill(&mut values);
    values
}

#[test]
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
fn random_singles_become_what_torch_makes_of_them() {
    let values = random(4 << 24, 41);
    for compared in same_as_torch(&[("x", "F32", &[1 << 12, 1 << 12], &values)], &FLOATS) {
        assert_eq!(compared["values"], 1 << 24, "{compared}");
    }
    for compared in same_as_torch(&[("x", "F32", &[1 << 20], &values[..4 << 20])], &INTEGERS) {
        assert!(compared["clamped"].as_u64().unwrap() > 0, "{compared}");
    }
}

#[test]
fn doubles_are_rounded_once() {
    // Random ones; and what lies next to the middle of two small floats, where torch rounds twice.
    let mut near = Vec::new();
    for index in 0..1_u64 << 12 {
        // 0 to 4095 as the upper bits of significands, at exponents from 2^-20 to 2^15.
        let exponent = 1003 + index % 36;
        for digits in [4, 8, 11, 3] {
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
    let values = random(8 << 16, 43);
    let tensors: [(&str, &str, &[u64], &[u8]); 2] =
        [("random", "F64", &[1 << 16], &values), ("near", "F64", &[count], &near)];
    let compared = same_as_torch(&tensors, &[&FLOATS[1..], &INTEGERS[..]].concat());
    let nearer: u64 = compared[1..3].iter().map(|compared| compared["nearer"].as_u64().unwrap()).sum();
    assert!(nearer > 100, "torch is never off: {compared:?}");
}

#[test]
fn integers_become_what_torch_makes_of_them() {
    let values = random(8 << 16, 47);
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
fn small_floats_are_also_ml_dtypes() {
    let folder = tempdir().unwrap();
    let ferry = Ferry::new();
    let [input, output] = ["input.safetensors", "output.safetensors"].map(|name| folder.path().join(name));
    let values = random(4 << 20, 53);
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
        let compared =
            python::script("cast_ml_dtypes.py", [input.as_os_str(), output.as_ref(), word.as_ref()]).json();
        assert_eq!(compared["values"], 1 << 20);
    }
}

/// Converts with `--json`, and leaves the report in a file.
fn report(ferry: &Ferry, input: &Path, output: &Path, options: &[&str]) -> (PathBuf, Outcome) {
    let outcome = ferry.convert(input, output, &[&["--json"], options].concat());
    let path = output.with_extension("report.json");
    std::fs::write(&path, &outcome.stdout).unwrap();
    (path, outcome)
}

#[test]
fn views_are_cast_and_counted_element_by_element() {
    let folder = tempdir().unwrap();
    let ferry = Ferry::new();
    let views = folder.path().join("views.pt");
    python::script("make_views.py", [&views]);
    for (dtype, word, output) in [
        ("bf16", "bfloat16", "bf16.safetensors"),
        ("f8_e4m3", "float8_e4m3fn", "f8.safetensors"),
        ("f16", "float16", "f16.pt"),
    ] {
        let output = folder.path().join(output);
        let cast = format!("cast:{dtype}");
        // A small budget, so that gathers are cut in tiles; and a second reading that counts nothing.
        let options = ["--step", &cast, "--memory", "16MiB", "--verify"];
        let (losses, outcome) = report(&ferry, &views, &output, &options);
        assert_eq!(outcome.json()["verified"], true);
        let arguments = [views.as_os_str(), output.as_ref(), word.as_ref(), losses.as_ref()];
        let compared = python::script("cast_views.py", arguments).json();
        assert!(compared["lost"].as_u64().unwrap() >= 40, "{compared}");
    }
}

#[test]
fn what_was_big_endian_is_cast() {
    let folder = tempdir().unwrap();
    let ferry = Ferry::new();
    let case = cases("torch", "zip_big_endian").pop().unwrap();
    let [plain, cast, twice] =
        ["plain.pt", "cast.safetensors", "twice.safetensors"].map(|name| folder.path().join(name));
    ferry.convert(&case.input(), &plain, &[]);
    ferry.convert(&case.input(), &cast, &["--step", "cast:f16"]);
    ferry.convert(&plain, &twice, &["--step", "cast:f16"]);
    assert!(ferry.equal(&cast, &twice));
    assert!(!ferry.equal(&plain, &cast), "nothing was cast");
}

#[test]
fn a_cast_checkpoint_of_tensorflow_is_checked_against_its_checksums() {
    let folder = tempdir().unwrap();
    let ferry = Ferry::new();
    let [model, cast, expected] = ["model.safetensors", "cast.safetensors", "expected.safetensors"]
        .map(|name| folder.path().join(name));
    let values = random(4 << 19, 59);
    std::fs::write(&model, safetensors(&[("x", "F32", &[1 << 19], &values)])).unwrap();
    let bundle = folder.path().join("bundle");
    ferry.convert(&model, &bundle, &["--to", "tf-bundle"]);
    ferry.convert(&bundle, &cast, &["--step", "cast:bf16"]);
    ferry.convert(&model, &expected, &["--step", "cast:bf16"]);
    assert!(ferry.equal(&cast, &expected));
    let data = folder.path().join("bundle.data-00000-of-00001");
    let mut bytes = std::fs::read(&data).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let arguments = [
        "convert".as_ref(),
        bundle.as_os_str(),
        cast.as_ref(),
        "--force".as_ref(),
        "--step".as_ref(),
        "cast:bf16".as_ref(),
    ];
    ferry.run(arguments).expect(3).says(&["crc32c", "\"x\""]);
    let arguments = ["diff".as_ref(), bundle.as_os_str(), expected.as_ref()];
    ferry.run(arguments).expect(3).says(&["crc32c"]);
}

#[test]
fn a_sharded_model_that_is_cast_loads() {
    let folder = tempdir().unwrap();
    let ferry = Ferry::new();
    let model = folder.path().join("in");
    std::fs::create_dir(&model).unwrap();
    let weights: Vec<u8> =
        (0..1_u16 << 14).flat_map(|value| (f32::from(value) / 7.0).to_le_bytes()).collect();
    let file = safetensors(&[
        ("a", "F32", &[1 << 13], &weights[..4 << 13]),
        ("b", "F32", &[1 << 13], &weights[4 << 13..]),
    ]);
    std::fs::write(model.join("model.safetensors"), file).unwrap();
    let config = "{\n  \"torch_dtype\": \"float32\",\n  \"hidden\":  7,\n  \"eps\": 1.0e-05\n}";
    std::fs::write(model.join("config.json"), config).unwrap();
    let shards = folder.path().join("shards/");
    let options = ["--to", "safetensors", "--step", "cast:bf16", "-o", "max_shard_size=20KB", "--json"];
    let report = ferry.convert(&model, &shards, &options).json();
    assert!(report["notes"].to_string().contains("bfloat16"), "{report}");
    let written = std::fs::read_to_string(shards.join("config.json")).unwrap();
    assert_eq!(written, config.replace("float32", "bfloat16"));
    let seen = python::script("see.py", [shards.join("model.safetensors.index.json")]).json();
    assert_eq!(seen["tensors"]["b"][0], json!("BF16"));
}
