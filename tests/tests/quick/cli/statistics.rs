//! Tests that `inspect --stats` summarizes the values of tensors and columns, and reports problems.

use serde_json::{Value, json};
use tensorferry_tests::fixtures::case;
use tensorferry_tests::{Ferry, args};

/// Returns the bytes of these F32 numbers.
fn singles(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn stats<'a>(document: &'a Value, name: &str) -> &'a Value {
    let tensors = document["tensors"].as_array().unwrap();
    &tensors.iter().find(|tensor| tensor["name"] == name).unwrap()["stats"]
}

/// Writes a model with an example of each problem.
fn made(ferry: &Ferry) -> std::path::PathBuf {
    let wave = |shift: u16| singles((0..4096_u16).map(|n| f32::from(n * 7 % 501 + shift) - 250.0));
    let plain = wave(0);
    let nan = singles((0..4096_u16).map(|n| if n == 77 { f32::NAN } else { f32::from(n) }));
    let dead = singles((0..4096_u16).map(|n| if (64..640).contains(&n) { 0.0 } else { f32::from(n) + 1.0 }));
    let constant = singles([0.5; 4096]);
    let zero = vec![0; 4 * 4096];
    let small = singles((0..4096_u16).map(|n| f32::from_bits(u32::from(n) + 1)));
    // The F16 tensor contains infinities, and numbers near the limit of F16.
    let clipped: Vec<u8> =
        (0..4096_u16).flat_map(|n| (if n < 9 { 0x7c00_u16 } else { 0x7bf0 }).to_le_bytes()).collect();
    let square: &[u64] = &[64, 64];
    ferry.safetensors(
        "made.safetensors",
        &[
            ("layers.0.weight", "F32", square, &plain),
            ("layers.1.weight", "F32", square, &plain),
            ("layers.2.weight", "F32", square, &wave(3)),
            ("layers.12.weight", "F32", square, &nan),
            ("layers.13.weight", "F32", square, &dead),
            ("layers.14.weight", "F32", square, &constant),
            ("layers.15.weight", "F32", square, &zero),
            ("layers.16.weight", "F32", square, &small),
            ("layers.17.weight", "F16", square, &clipped),
            ("norm.weight", "F32", &[4], &singles([1.0; 4])),
            ("empty", "F32", &[0, 3], &[]),
        ],
    )
}

#[test]
fn what_is_wrong_is_found_and_nothing_else() {
    let ferry = Ferry::new();
    let path = made(&ferry);
    let document = ferry.run(args!["inspect", path, "--stats", "--json"]).expect(0).json();
    let findings: Vec<Value> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| json!([finding["kind"], finding["tensors"], finding["layers"]]))
        .collect();
    let of = |kind: &str, layer: u64| json!([kind, [format!("layers.{layer}.weight")], [layer]]);
    let expected = [
        of("nan", 12),
        of("infinite", 17),
        of("clipped", 17),
        of("all_zero", 15),
        of("dead", 13),
        of("dead", 14),
        json!(["equal", ["layers.0.weight", "layers.1.weight"], [0, 1]]),
        of("subnormal", 16),
    ];
    let sorted = |mut list: Vec<Value>| {
        list.sort_by_key(Value::to_string);
        list
    };
    assert_eq!(sorted(findings), sorted(expected.to_vec()));
    assert_eq!(stats(&document, "layers.13.weight")["zero_rows"], 9);
    assert_eq!(stats(&document, "layers.12.weight")["nan"], 1);
    assert_eq!(stats(&document, "layers.12.weight")["finite"], 4095);
    assert_eq!(stats(&document, "empty")["min"], Value::Null);
    assert_eq!(stats(&document, "empty")["count"], 0);
    let text = ferry.run(args!["inspect", path, "--stats"]).expect(0);
    let _ =
        text.prints(&["NaN: 1 tensor, layer 12", "dead: 2 tensors, layers 13, 14", "equal, not tied", "std"]);
}

#[test]
fn a_plain_model_has_no_findings_and_a_pattern_chooses() {
    let ferry = Ferry::new();
    let path = made(&ferry);
    let run = ferry.run(args!["inspect", path, "--stats=layers.[02].weight", "--all"]).expect(0);
    assert!(!run.stdout.contains("norm.weight"), "{run}");
    let _ = run.prints(&["no anomalies found", "layers.2.weight"]);
    let document =
        ferry.run(args!["inspect", path, "norm*", "--stats", "--histogram", "--json"]).expect(0).json();
    let found = stats(&document, "norm.weight");
    assert_eq!((&found["std"], &found["mean"], &found["max"]), (&json!(0.0), &json!(1.0), &json!(1.0)));
    assert_eq!(found["histogram"]["counts"][32], 4);
    assert_eq!(found["histogram"]["edges"][64], 1.5);
    let none = ferry.run(args!["inspect", path, "--stats=nothing*"]).expect(2);
    let _ = none.says(&["nothing*", "names such as"]);
    let _ = ferry.run(args!["inspect", path, "--histogram"]).expect(2);
}

#[test]
fn quantised_weights_are_what_they_stand_for() {
    let ferry = Ferry::new();
    let mut seen = 0;
    for (section, name) in [("gguf", ""), ("quantised", "")] {
        for case in tensorferry_tests::fixtures::cases(section, name).iter().filter(|case| !case.is_error()) {
            let run = ferry.run(args!["inspect", case.input(), "--stats", "--json"]);
            let document = run.expect(0).json();
            for tensor in document["tensors"].as_array().unwrap() {
                assert!(tensor["stats"].is_object(), "{}: {tensor}", case.name);
            }
            let weights = document["model"]["weights"].as_array().cloned().unwrap_or_default();
            seen += weights.iter().filter(|weight| weight["stats"]["dequantized"] == true).count();
            let tensors = document["tensors"].as_array().unwrap().iter();
            seen += tensors.filter(|tensor| tensor["stats"]["dequantized"] == true).count();
        }
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn columns_are_looked_at_closely() {
    let ferry = Ferry::new();
    let rows: String = (0..3000_u32)
        .map(|n| {
            let text = if n % 3 == 0 { "null".to_owned() } else { format!("\"text {}\"", n % 700) };
            format!("{{\"id\": {n}, \"text\": {text}, \"is\": {}, \"x\": {}.5}}\n", n % 4 == 0, n % 10)
        })
        .collect();
    let path = ferry.write("rows.jsonl", rows);
    let document = ferry.run(args!["inspect", path, "--stats", "--json"]).expect(0).json();
    let column = |name: &str| {
        document["schema"].as_array().unwrap().iter().find(|column| column["name"] == name).unwrap().clone()
    };
    let ids = column("id")["stats"]["distinct"].as_f64().unwrap();
    assert!((ids / 3000.0 - 1.0).abs() < 0.025, "{ids}");
    assert_eq!(column("id")["stats"]["distinct_is_exact"], false);
    assert_eq!(column("id")["stats"]["mean"], 1499.5);
    assert_eq!(
        (&column("text")["stats"]["distinct"], &column("text")["missing"]),
        (&json!(700), &json!(1000))
    );
    assert_eq!(
        (&column("is")["stats"]["true"], &column("is")["stats"]["false"]),
        (&json!(750), &json!(2250))
    );
    assert_eq!((&column("x")["stats"]["distinct"], &column("x")["stats"]["mean"]), (&json!(10), &json!(5.0)));
    let text = ferry.run(args!["inspect", path, "--stats"]).expect(0);
    let _ = text.prints(&["700 distinct", "750 true, 2250 false", "mean 1499.5", "about "]);
    let plain = ferry.run(args!["inspect", path, "--json"]).expect(0).json();
    assert!(plain["schema"][0].get("stats").is_none());
    let _ = ferry.run(args!["inspect", path, "--stats", "--histogram"]).expect(2);
}

#[test]
fn big_endian_turned_and_nested_inputs_are_the_same() {
    let ferry = Ferry::new();
    let plain = ferry.safetensors(
        "plain.safetensors",
        &[("w", "F32", &[3, 2], &singles([1.0, -2.0, 3.0, 4.0, 5.0, 6.5]))],
    );
    let turned = ferry.at("turned.pt");
    let _ = ferry.convert(&plain, &turned, &["--step", "transpose"]);
    let of = |path: &std::path::Path| {
        let document = ferry.run(args!["inspect", path, "--stats", "--json"]).expect(0).json();
        stats(&document, "w").clone()
    };
    assert_eq!(of(&plain), of(&turned));
    assert_eq!(of(&plain)["min"], -2.0);
    // Test a folder whose tensors are quantized in blocks.
    let nested = case("torch", "zip_views").input();
    let document = ferry.run(args!["inspect", nested, "--stats", "--json"]).expect(0).json();
    assert!(document["tensors"].as_array().unwrap().iter().all(|tensor| tensor["stats"]["count"].is_u64()));
}
