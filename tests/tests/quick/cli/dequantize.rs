//! The step `dequantize`, as a user meets it: what becomes of the folder around the weights, what is refused, and what is
//! said of what it leaves.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tensorferry_tests::Ferry;
use tensorferry_tests::fixtures::case;

/// A copy of a case's folder, whose configuration is changed.
fn folder(ferry: &Ferry, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let case = case("quantised", name);
    let mut config: Value =
        serde_json::from_slice(&fs::read(case.folder.join("config.json")).unwrap()).unwrap();
    change(&mut config);
    ferry.write("model/model.safetensors", fs::read(case.folder.join("model.safetensors")).unwrap());
    ferry.write("model/config.json", serde_json::to_vec_pretty(&config).unwrap());
    ferry.at("model")
}

fn config(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
}

fn dtype_of(ferry: &Ferry, input: &Path, name: &str) -> String {
    ferry.tensors(input)[name].0.clone()
}

#[test]
fn the_folder_follows() {
    let ferry = Ferry::new();
    let model = folder(&ferry, "gptq_4bit_act_order", |_| ());
    ferry.write("model/quantize_config.json", "{\"bits\": 4}");
    ferry.write("model/tokenizer.json", "{}");
    let out = ferry.at("out");
    let options = ["--to", "safetensors", "--json", "--verify", "--step", "dequantize:bf16"];
    let report = ferry.convert(&model, &out, &options).json();
    let found = config(&out);
    assert!(found.get("quantization_config").is_none(), "{found}");
    assert_eq!(found["torch_dtype"], "bfloat16");
    assert_eq!(found["architectures"], config(&model)["architectures"]);
    assert!(out.join("tokenizer.json").is_file() && !out.join("quantize_config.json").exists());
    assert!(report["notes"].to_string().contains("quantize_config.json"), "{}", report["notes"]);
    assert_eq!(dtype_of(&ferry, &out, "model.layers.0.self_attn.k_proj.weight"), "BF16");
    assert_eq!(dtype_of(&ferry, &out, "model.layers.0.self_attn.k_proj.bias"), "F16");
    // There is nothing left to do.
    let again =
        ferry.convert(&out, &ferry.at("again"), &["--to", "safetensors", "--json", "--step", "dequantize"]);
    assert!(again.json()["notes"].to_string().contains("changed nothing"));
    assert!(ferry.equal(&out, &ferry.at("again")));
}

#[test]
fn without_a_dtype_it_is_that_of_the_configuration() {
    for (said, expected) in [("float16", "F16"), ("bfloat16", "BF16"), ("auto", "F32")] {
        let ferry = Ferry::new();
        let model = folder(&ferry, "awq_gemm", |config| config["torch_dtype"] = json!(said));
        let out = ferry.at("out.safetensors");
        ferry.convert(&model, &out, &["--step", "dequantize"]);
        assert_eq!(dtype_of(&ferry, &out, "model.layers.0.mlp.gate_proj.weight"), expected, "{said}");
    }
}

#[test]
fn a_weight_without_a_scale_has_the_scale_one_if_the_user_says_so() {
    let ferry = Ferry::new();
    let model = case("quantised", "bad_fp8_no_scale").folder;
    let out = ferry.at("out.safetensors");
    ferry
        .try_convert(&model, &out, &["--step", "dequantize"])
        .expect(3)
        .says(&["up_proj", "missing_scale=1"]);
    ferry.convert(&model, &out, &["--step", "dequantize:f32,missing_scale=1"]);
    // The others have theirs.
    let good = case("quantised", "fp8_block_scales").expected;
    let digest = &good["dequantised"]["model.layers.1.mlp.experts.0.up_proj.weight"]["sha256"];
    assert_eq!(json!(ferry.tensors(&out)["model.layers.1.mlp.experts.0.up_proj.weight"].2), *digest);
    assert_eq!(dtype_of(&ferry, &out, "model.layers.0.mlp.experts.0.up_proj.weight"), "F32");
}

#[test]
fn it_goes_by_the_names_of_the_input() {
    let ferry = Ferry::new();
    let model = case("quantised", "awq_gemm").folder;
    let out = ferry.at("out.safetensors");
    for before in ["rename:^model,to=net", "cast:f32", "transpose,where=*.scales"] {
        let run = ferry.try_convert(&model, &out, &["--step", before, "--step", "dequantize:f32"]);
        run.expect(2).says(&["dequantize", "put it before"]);
    }
    ferry.try_convert(&model, &out, &["--step", "dequantize:f8"]).expect(2).says(&["f32, f16 or bf16"]);
    let steps =
        ["--step", "select:*.layers.0.*", "--step", "dequantize:f32", "--step", "rename:^model,to=net"];
    ferry.convert(&model, &out, &steps);
    let tensors = ferry.tensors(&out);
    assert_eq!(tensors.keys().collect::<Vec<_>>(), ["net.layers.0.mlp.gate_proj.weight"]);
}

#[test]
fn what_it_does_not_know_is_carried_or_refused_by_name() {
    let ferry = Ferry::new();
    let out = ferry.at("out.safetensors");
    let model =
        folder(&ferry, "awq_gemm", |config| config["quantization_config"]["quant_method"] = json!("hqq"));
    let report = ferry.convert(&model, &out, &["--json", "--step", "dequantize"]).json();
    assert!(report["notes"].to_string().contains("hqq are carried as they are"), "{}", report["notes"]);
    assert!(ferry.equal(&model, &out));
    for (key, value, says) in
        [("quant_method", "made_up", "made_up"), ("version", "gemv", "gemv"), ("bits", "4", "bits")]
    {
        let ferry = Ferry::new();
        let model = folder(&ferry, "awq_gemm", |config| config["quantization_config"][key] = json!(value));
        let run = ferry.try_convert(&model, &ferry.at("out.safetensors"), &["--step", "dequantize"]);
        run.expect(3).says(&["config.json", says]);
    }
    let ferry = Ferry::new();
    let model = folder(&ferry, "awq_gemm", |config| {
        drop(config.as_object_mut().unwrap().remove("quantization_config"));
    });
    let run = ferry.try_convert(&model, &ferry.at("out.safetensors"), &["--step", "dequantize"]);
    run.expect(3).says(&["nothing says how", "config.json"]);
}

#[test]
fn readers_with_types_of_their_own_are_asked_first() {
    let ferry = Ferry::new();
    let out = ferry.at("out.safetensors");
    let case = case("gguf", "quants_k");
    let report =
        ferry.convert(&case.input(), &out, &["--json", "--verify", "--step", "dequantize:f32"]).json();
    let losses = report["losses"].as_array().unwrap();
    assert_eq!(losses.iter().filter(|loss| loss["kind"] == "precision").count(), 1, "{losses:?}");
    let found = ferry.tensors(&out);
    let expected = case.expected["tensors"].as_object().unwrap();
    assert_eq!(found.len(), expected.len());
    for (name, tensor) in expected {
        assert_eq!(json!(found[name].2), tensor["dequantized_f32_sha256"], "{name}");
    }
    let clash = ["-i", "dequantize=f16", "--step", "dequantize:f32"];
    ferry.try_convert(&case.input(), &ferry.at("b.safetensors"), &clash).expect(2).says(&["one of them"]);
    // Torch's own quantised tensors come under the same word.
    let torch = tensorferry_tests::fixtures::case("torch", "zip_quantized");
    for to in ["F32", "BF16"] {
        let out = ferry.at(format!("{to}.safetensors"));
        ferry.convert(&torch.input(), &out, &["--step", &format!("dequantize:{}", to.to_lowercase())]);
        let quantized = torch.tensors(|_, tensor| tensor["quant"].is_object());
        assert!(quantized.len() >= 4);
        for name in quantized.keys() {
            assert_eq!(dtype_of(&ferry, &out, name), to, "{name}");
        }
    }
}

#[test]
fn blocks_in_a_foreign_container_stay_packed_and_that_is_said() {
    let ferry = Ferry::new();
    let (packed, out) = (ferry.at("packed.safetensors"), ferry.at("out.safetensors"));
    ferry.convert(&case("gguf", "quants_k").input(), &packed, &[]);
    let report = ferry.convert(&packed, &out, &["--json", "--step", "dequantize"]).json();
    assert!(report["notes"].to_string().contains("stay packed"), "{}", report["notes"]);
    assert!(ferry.equal(&packed, &out));
}

#[test]
fn a_cast_does_not_take_codes_for_numbers() {
    let ferry = Ferry::new();
    let out = |name: &str| ferry.at(format!("{name}.safetensors"));
    let fp8 = case("quantised", "fp8_block_scales").folder;
    ferry.try_convert(&fp8, &out("refused"), &["--step", "cast:bf16"]).expect(2).says(&[
        "_proj.weight",
        "FP8",
        "--step dequantize:bf16",
    ]);
    ferry.convert(&fp8, &out("after"), &["--step", "dequantize:f32", "--step", "cast:bf16"]);
    let scales = ["--json", "--step", "cast:bf16,dtype=f32"];
    let notes = ferry.convert(&fp8, &out("scales"), &scales).json()["notes"].to_string();
    assert!(
        notes.contains("scales of weights of FP8") && notes.contains("--step dequantize:bf16"),
        "{notes}"
    );
    let blocks = case("gguf", "llama_tiny").input();
    let notes =
        ferry.convert(&blocks, &ferry.at("norms.gguf"), &["--json", "--step", "cast:f16"]).json()["notes"]
            .to_string();
    assert!(notes.contains("leaves 6 quantised tensors") && notes.contains("dequantize:f16"), "{notes}");
    assert!(notes.contains("cast:f32,rank=1"), "{notes}");
}
