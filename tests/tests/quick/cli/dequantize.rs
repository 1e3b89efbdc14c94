//! Tests of the step `dequantize`. They check the folder around the weights, the rejected inputs,
//! and the reports about tensors that the step leaves quantized.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tensorferry_tests::fixtures::case;
use tensorferry_tests::{Ferry, args};

/// Returns a copy of a case's folder with a changed configuration.
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
    // A second `dequantize` step has no effect.
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
    // Other weights still have their scales.
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
fn what_it_does_not_know_is_refused_by_name() {
    let ferry = Ferry::new();
    let out = ferry.at("out.safetensors");
    let model =
        folder(&ferry, "awq_gemm", |config| config["quantization_config"]["quant_method"] = json!("hqq"));
    ferry.try_convert(&model, &out, &["--step", "dequantize"]).expect(3).says(&["qweight", "hqq"]);
    ferry.convert(&model, &out, &[]);
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
    run.expect(3).says(&["quantization method of this weight is unknown", "config.json"]);
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
    ferry
        .try_convert(&case.input(), &ferry.at("b.safetensors"), &clash)
        .expect(2)
        .says(&["contradicts the step"]);
    // The step also dequantizes torch's own quantized tensors.
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
    assert!(report["notes"].to_string().contains("remain packed"), "{}", report["notes"]);
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
    assert!(notes.contains("scales of FP8 weights") && notes.contains("--step dequantize:bf16"), "{notes}");
    let blocks = case("gguf", "llama_tiny").input();
    let notes =
        ferry.convert(&blocks, &ferry.at("norms.gguf"), &["--json", "--step", "cast:f16"]).json()["notes"]
            .to_string();
    assert!(notes.contains("leaves 6 quantized tensors") && notes.contains("dequantize:f16"), "{notes}");
    assert!(notes.contains("cast:f32,rank=1"), "{notes}");
}

/// The values 1, 2, 4 and -1 in F8_E4M3.
const FP8: [u8; 4] = [0x38, 0x40, 0x48, 0xb8];
/// The values 0.5 and 2 in F32.
const SCALES: [u8; 8] = [0, 0, 0, 63, 0, 0, 0, 64];

#[test]
fn names_tell_what_codes_stand_for() {
    let (one, rows) = (&SCALES[..4], &SCALES[..]);
    let (halves, by_rows) = ([0.5, 1.0, 2.0, -0.5], [0.5, 1.0, 8.0, -2.0]);
    let int8 = &[2_u8, 4, 3, 255][..];
    for (codes, dtype, bytes, scale, shape, of_scale, weight, values) in [
        ("l.weight", "F8_E4M3", &FP8[..], "l.weight_scale", &[][..], one, "l.weight", halves),
        ("l.weight", "F8_E4M3", &FP8, "l.weight_scale", &[2, 1], rows, "l.weight", by_rows),
        ("l.weight", "F8_E4M3", &FP8, "l.weight_scale_inv", &[1, 1], one, "l.weight", halves),
        ("l.weight", "F8_E4M3", &FP8, "l.scale_weight", &[1], one, "l.weight", halves),
        ("l.weight", "F8_E4M3", &FP8, "l.qscale_weight", &[1], one, "l.weight", halves),
        ("l.weight", "F8_E4M3", &FP8, "l.scale", &[1], one, "l.weight", halves),
        ("weight", "F8_E4M3", &FP8, "scale", &[1], one, "weight", halves),
        ("l.weight", "I8", int8, "l.weight_scale", &[2, 1], rows, "l.weight", [1.0, 2.0, 6.0, -2.0]),
        ("l.weight:qdata", "I8", int8, "l.weight:scale", &[2, 1], rows, "l.weight", [1.0, 2.0, 6.0, -2.0]),
        ("l.weight.qdata", "I8", int8, "l.weight.scale", &[2, 1], rows, "l.weight", [1.0, 2.0, 6.0, -2.0]),
        ("l.weight._data", "I8", int8, "l.weight._scale", &[2, 1], rows, "l.weight", [1.0, 2.0, 6.0, -2.0]),
    ] {
        let ferry = Ferry::new();
        let input = ferry
            .safetensors("m.safetensors", &[(codes, dtype, &[2, 2], bytes), (scale, "F32", shape, of_scale)]);
        let (out, cast) = (ferry.at("out.safetensors"), ["--step", "cast:f32,only=any"]);
        ferry.convert(&input, &out, &["--step", "dequantize:f32", "--verify"]);
        let floats: Vec<u8> = values.iter().flat_map(|value: &f32| value.to_le_bytes()).collect();
        let right = ferry.safetensors("right.safetensors", &[(weight, "F32", &[2, 2], &floats)]);
        assert!(ferry.equal(&out, &right), "{codes} and {scale}");
        // Steps and formats that need numbers reject quantized codes.
        let refused = ferry.at("refused.safetensors");
        let hints = [codes, "--step dequantize", "-i codes=numbers"];
        ferry.try_convert(&input, &refused, &cast).expect(2).says(&hints);
        ferry.try_convert(&input, &ferry.at("refused.gguf"), &[]).expect(2).says(&hints);
        ferry.diff(&input, &input, &["--rtol", "0.1"]).expect(2).says(&hints);
        ferry.diff(&input, &input, &[]).expect(0);
        let drops = ["--step", &format!("drop:{scale}"), cast[0], cast[1]];
        ferry.try_convert(&input, &refused, &drops).expect(2).says(&hints);
        let drops = ["--step", &format!("drop:{scale}"), "--step", "dequantize"];
        ferry.try_convert(&input, &refused, &drops).expect(2).says(&["dequantize"]);
        ferry.convert(&input, &refused, &["-i", "codes=numbers", cast[0], cast[1]]);
        assert_eq!(dtype_of(&ferry, &refused, codes), "F32");
    }
}

#[test]
fn codes_of_which_names_do_not_tell_the_method_are_refused() {
    let words = &[7_u8; 16][..];
    for (codes, dtype, sibling) in [
        ("l.qweight", "I32", "l.scales"),
        ("l.weight", "U32", "l.scales"),
        ("l.weight", "U8", "l.weight_scale"),
        ("l.weight", "I8", "l.scale"),
        ("d.kernel", "I8", "d.kernel_scale"),
        ("l.W_q", "U8", "l.scale"),
        ("layers/dense/vars/0", "I8", "layers/dense/vars/1"),
        ("w_quantized", "I8", "w_scale"),
        ("l.weight", "F8_E4M3", "l.weight.scale"),
        ("l.weight", "F8_E4M3", "l.weight_quantizer._scale"),
        ("l.weight", "I8", "l.quant_scale"),
        ("l.kernel", "I8", "l.scale"),
        ("l.weight_int8", "I8", "l.weight_scale"),
        ("l._weight_qdata", "I32", "l._weight_scale_and_zero"),
        ("l.weight", "I8", "l.weight_scaler"),
        ("l.B", "I32", "l.s"),
        ("l._data", "U8", "l._scale_inv"),
        ("l.W_q", "U8", "l.meta.scale"),
        // These are names in JAX and TensorFlow, where the rows of a kernel are the inputs.
        ("d.kernel", "F8_E4M3", "d.kernel_scale"),
        ("d/kernel", "F8_E4M3", "d/scale"),
        ("d/weight", "I8", "d/scale"),
        ("d/kernel:0", "F8_E4M3", "d/kernel_scale:0"),
    ] {
        let ferry = Ferry::new();
        let width = if dtype.ends_with("32") { 4 } else { 1 };
        let tensors =
            [(codes, dtype, &[4, 4 / width][..], words), (sibling, "F32", &[4, 1][..], &[0_u8; 16][..])];
        let input = ferry.safetensors("m.safetensors", &tensors);
        let out = ferry.at("out.safetensors");
        ferry.try_convert(&input, &out, &["--step", "dequantize"]).expect(3).says(&[codes, "codes=numbers"]);
        ferry.try_convert(&input, &out, &["--step", "cast:f32,only=any"]).expect(2).says(&[codes]);
        let statistics = ferry.run(args!["inspect", &input, "--stats"]).expect(0);
        assert!(statistics.stdout.contains("no statistics"), "{statistics}");
    }
}

#[test]
fn codes_of_a_method_that_only_the_configuration_names_are_refused() {
    for (config, codes, scale) in [
        (json!({"quantization_config": {"quant_method": "quark"}}), "F8_E4M3", "l.of_another_name"),
        (json!({"quantization_config": {"quant_method": "vptq"}}), "U8", "l.of_another_name"),
        // These 4-bit codes have names that are used for 8-bit codes.
        (json!({"quantization_bit": 4}), "I8", "l.weight_scale"),
        (json!({"quantization_config": {"quant_method": "fp8"}}), "F8_E4M3", "l.weight_scale"),
    ] {
        let ferry = Ferry::new();
        let tensors = [
            ("l.weight", codes, &[2, 2][..], &FP8[..]),
            (scale, "F32", &[2], &SCALES),
            ("l.pre_quant_scale", "F32", &[2], &SCALES),
        ];
        ferry.safetensors("m/model.safetensors", &tensors);
        ferry.write("m/config.json", config.to_string());
        let (input, out) = (ferry.at("m"), ferry.at("out.safetensors"));
        ferry.try_convert(&input, &out, &["--step", "dequantize"]).expect(3);
        ferry.try_convert(&input, &out, &["--step", "cast:f32,only=any"]).expect(2).says(&["l.weight"]);
    }
}

#[test]
fn codes_whose_scales_lie_in_another_shard_are_refused() {
    let ferry = Ferry::new();
    let shard = "m/model-00001-of-00002.safetensors";
    let input = ferry.safetensors(shard, &[("l.weight", "F8_E4M3", &[2, 2], &FP8)]);
    let out = ferry.at("out.safetensors");
    let alone = ["-i", "shard=alone", "--step", "cast:f32"];
    ferry.convert(&input, &out, &alone);
    let index = json!({"weight_map": {
        "l.weight": "model-00001-of-00002.safetensors",
        "l.weight_scale_inv": "model-00002-of-00002.safetensors",
    }});
    ferry.write("m/model.safetensors.index.json", index.to_string());
    ferry.try_convert(&input, &out, &[&alone[..], &["--force"]].concat()).expect(2).says(&["l.weight"]);
    let dequantize = ["-i", "shard=alone", "--step", "dequantize", "--force"];
    ferry.try_convert(&input, &out, &dequantize).expect(3).says(&["l.weight_scale_inv", "another shard"]);
}

#[test]
fn scales_and_counters_of_other_layers_stay_numbers() {
    let ferry = Ferry::new();
    let input = ferry.safetensors(
        "m.safetensors",
        &[
            ("LayerNorm_0.scale", "F32", &[2], &SCALES),
            ("LayerNorm_0.bias", "F32", &[2], &SCALES),
            ("l.weight", "F32", &[2], &SCALES),
            ("l.scale", "F32", &[2], &SCALES),
            ("step", "I32", &[], &[3, 0, 0, 0]),
            ("step_scale", "F32", &[], &SCALES[..4]),
            ("ids", "I64", &[1], &[3, 0, 0, 0, 0, 0, 0, 0]),
            ("plain.weight", "F8_E4M3", &[4], &FP8),
            ("plain.input_scale", "F32", &[], &SCALES[..4]),
            ("text_projection", "F8_E4M3", &[2, 2], &FP8),
            ("logit_scale", "F32", &[], &SCALES[..4]),
        ],
    );
    let out = ferry.at("out.safetensors");
    ferry.convert(&input, &out, &["--step", "cast:bf16,only=any", "--strict"]);
    assert!(ferry.tensors(&out).values().all(|(dtype, ..)| dtype == "BF16"));
    let report = ferry.convert(&input, &ferry.at("same.safetensors"), &["--json", "--step", "dequantize"]);
    assert!(report.json()["notes"].to_string().contains("changed nothing"));
}

#[test]
fn what_comfyui_says_of_its_weights_goes_or_counts() {
    let ferry = Ferry::new();
    let file = |format: &str| {
        let metadata = format!("{{\\\"layers\\\": {{\\\"l\\\": {{\\\"format\\\": \\\"{format}\\\"}}}}}}");
        let tensor = |name: &str, dtype: &str, shape: &str, from: usize, to: usize| {
            format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
        };
        let header = format!(
            "{{\"__metadata__\":{{\"_quantization_metadata\":\"{metadata}\"}},{},{}}}",
            tensor("l.weight_scale", "F32", "[]", 0, 4),
            tensor("l.weight", "F8_E4M3", "[2,2]", 4, 8)
        );
        let header = format!("{header:<0$}", header.len().next_multiple_of(8));
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &SCALES[..4], &FP8].concat()
    };
    let (input, out) = (ferry.at("m.safetensors"), ferry.at("out.safetensors"));
    ferry.write("m.safetensors", file("float8_e4m3fn"));
    ferry.convert(&input, &out, &["--step", "dequantize:f32"]);
    assert!(!ferry.inspect(&out).to_string().contains("_quantization_metadata"));
    ferry.write("m.safetensors", file("mxfp8"));
    let run = ferry.try_convert(&input, &ferry.at("other.safetensors"), &["--step", "dequantize:f32"]);
    run.expect(3).says(&["ComfyUI", "mxfp8"]);
}

#[test]
fn a_configuration_without_a_method_is_known_by_its_keys() {
    let digest = |name: &str| {
        let case = case("quantised", name);
        let made = case.expected["dequantised"].as_object().unwrap();
        made.iter().map(|(name, facts)| (name.clone(), facts["sha256"].clone())).collect::<Vec<_>>()
    };
    for name in [
        "bnb_nf4_double_quant",
        "bnb_int8",
        "gptq_4bit_act_order",
        "awq_gemm",
        "ct_nvfp4",
        "fp8_block_scales",
    ] {
        let ferry = Ferry::new();
        let model = folder(&ferry, name, |config| {
            drop(config["quantization_config"].as_object_mut().unwrap().remove("quant_method"));
        });
        let out = ferry.at("out.safetensors");
        ferry.convert(&model, &out, &["--step", "dequantize:f32"]);
        let found = ferry.tensors(&out);
        for (tensor, digest) in digest(name) {
            assert_eq!(json!(found[&tensor].2), digest, "{name}: {tensor}");
        }
    }
}

#[test]
fn overrides_of_single_layers_count() {
    let good = |name: &str| {
        let case = case("quantised", name).expected;
        let made = case["dequantised"].as_object().unwrap().clone();
        made.into_iter().map(|(name, facts)| (name, facts["sha256"].clone())).collect::<Vec<_>>()
    };
    // The global settings are wrong, but the settings of each layer are correct.
    let of_layers = json!({"bits": 4, "group_size": 16});
    let changes: [(&str, Value); 3] = [
        ("dynamic", json!({"-:lm_head": {}, "+:.*\\.0\\..*": of_layers, "model\\.layers\\.1": of_layers})),
        ("extra_config", json!({"model.layers.0.self_attn.k_proj": of_layers, ".*layers\\.1.*": of_layers})),
        ("auto-round", json!({".*layers.*": of_layers, "lm_head": {"bits": 16}})),
    ];
    for (key, overrides) in changes {
        let ferry = Ferry::new();
        let model = folder(&ferry, "gptq_4bit_act_order", |config| {
            let said = config["quantization_config"].as_object_mut().unwrap();
            said.insert("bits".to_owned(), json!(8));
            said.insert("group_size".to_owned(), json!(32));
            if key == "auto-round" {
                said.insert("quant_method".to_owned(), json!("auto-round"));
                said.insert("packing_format".to_owned(), json!("auto_round:auto_gptq"));
                said.insert("extra_config".to_owned(), overrides.clone());
            } else {
                said.insert(key.to_owned(), overrides.clone());
            }
        });
        let out = ferry.at("out.safetensors");
        ferry.convert(&model, &out, &["--step", "dequantize:f32"]);
        let found = ferry.tensors(&out);
        for (tensor, digest) in good("gptq_4bit_act_order") {
            assert_eq!(json!(found[&tensor].2), digest, "{key}: {tensor}");
        }
    }
    // Layer settings in MLX do not inherit the global settings. A missing setting has the default
    // of the mode, which is affine.
    let ferry = Ferry::new();
    let model = folder(&ferry, "mlx_affine", |config| {
        let said = config["quantization"].as_object_mut().unwrap();
        said.insert("mode".to_owned(), json!("mxfp4"));
        said.insert("model.layers.0.mlp.up_proj".to_owned(), json!({"group_size": 32}));
        said["model.layers.1.mlp.up_proj"] = json!({"bits": 8});
        said["model.layers.2.mlp.up_proj"] = json!({"bits": 3, "group_size": 32});
        said["model.embed_tokens"] = json!({"bits": 6});
    });
    let out = ferry.at("out.safetensors");
    ferry.convert(&model, &out, &["--step", "dequantize:f32"]);
    let found = ferry.tensors(&out);
    for (tensor, digest) in good("mlx_affine") {
        assert_eq!(json!(found[&tensor].2), digest, "{tensor}");
    }
}
