//! Tests of the model description that `inspect` prints.

use serde_json::{Value, json};
use std::path::Path;
use tensorferry_tests::Ferry;
use tensorferry_tests::fixtures::{Case, case, cases};

fn model(ferry: &Ferry, input: &Path) -> Value {
    ferry.on("inspect", input, &["--json"]).expect(0).json()["model"].clone()
}

fn text(ferry: &Ferry, input: &Path, options: &[&str]) -> String {
    ferry.on("inspect", input, options).expect(0).stdout
}

/// Returns the number of elements in all tensors of a dequantized case.
fn dequantized_parameters(ferry: &Ferry, case: &Case) -> u64 {
    let out = ferry.at(format!("{}.safetensors", case.name));
    ferry.convert(&case.folder, &out, &["--step", "dequantize:f32"]);
    ferry.inspect(&out)["parameters"].as_u64().unwrap()
}

#[test]
fn quantised_weights_are_one_each_with_their_true_parameters() {
    let ferry = Ferry::new();
    let mut seen = Vec::new();
    for case in cases("quantised", "") {
        if !case.folder.join("config.json").is_file() {
            continue;
        }
        let document = ferry.on("inspect", &case.folder, &["--json"]).expect(0).json();
        let found = &document["model"]["quantization"];
        if !case.expected["dequantised"].is_object() {
            // The problem is reported, and the tensors are listed without being combined.
            assert!(found["problem"].is_string(), "{}: {document}", case.name);
            continue;
        }
        assert!(found["problem"].is_null(), "{}: {found}", case.name);
        assert_eq!(document["parameters"], dequantized_parameters(&ferry, &case), "{}", case.name);
        let weights = document["model"]["weights"].as_array().unwrap();
        let expected = case.expected["dequantised"].as_object().unwrap();
        for (name, facts) in expected {
            let weight = weights.iter().find(|weight| weight["name"] == *name);
            let weight = weight.unwrap_or_else(|| panic!("{}: {name}", case.name));
            assert_eq!(weight["shape"], facts["shape"], "{}: {name}", case.name);
            assert!(weight["parts"].as_array().unwrap().len() >= 2, "{weight}");
        }
        assert_eq!((found["weights"].as_u64(), weights.len()), (Some(expected.len() as u64), expected.len()));
        seen.push((case.name.clone(), found["method"].as_str().unwrap().to_owned()));
    }
    let methods: std::collections::BTreeSet<&str> = seen.iter().map(|(_, method)| method.as_str()).collect();
    let all = ["AWQ", "FP8", "GPTQ", "MLX", "MXFP4", "bitsandbytes", "compressed-tensors"];
    assert_eq!(methods.into_iter().collect::<Vec<_>>(), all, "{seen:?}");
    assert_eq!(seen.len(), 12);
}

#[test]
fn a_weight_is_one_line_and_its_parts_are_shown_with_all() {
    let ferry = Ferry::new();
    let folder = case("quantised", "gptq_4bit_act_order").folder;
    let name = "model.layers.0.self_attn.k_proj";
    let shown = text(&ferry, &folder, &[]);
    let line = shown.lines().find(|line| line.contains(&format!("{name}.weight"))).unwrap();
    assert!(line.contains("bits [") && line.contains("g_idx + qweight + qzeros + scales"), "{line}");
    assert!(
        shown.contains("quantization: GPTQ, 4 bits in groups of") && !shown.contains(".qzeros"),
        "{shown}"
    );
    assert!(text(&ferry, &folder, &["--all"]).contains(&format!("{name}.qzeros")));
    // A selection can name tensors or whole weights. The name of a weight selects all of its parts.
    let part = ferry.on("inspect", &folder, &["*.qzeros", "--json"]).expect(0).json();
    assert_eq!(
        (&part["model"]["weights"], part["tensors"].as_array().unwrap().len() > 1),
        (&Value::Null, true)
    );
    let whole = ferry.on("inspect", &folder, &[&format!("{name}.weight"), "--json"]).expect(0).json();
    assert_eq!(whole["model"]["weights"][0]["name"], format!("{name}.weight"));
    assert_eq!(whole["tensors"].as_array().unwrap().len(), 4);
}

#[test]
fn a_file_says_its_architecture_type_and_tokenizer() {
    let ferry = Ferry::new();
    let input = case("gguf", "llama_tiny").input();
    let found = model(&ferry, &input);
    assert_eq!(found["architecture"], "llama", "{found}");
    let metadata = &ferry.inspect(&input)["metadata"];
    assert_eq!(found["file_type"], json!({"number": 15, "name": "Q4_K_M"}));
    assert_eq!(found["tokenizer"]["tokens"], metadata["tokenizer.ggml.tokens"].as_array().unwrap().len());
    let shown = text(&ferry, &input, &[]);
    assert!(shown.contains("architecture: llama") && shown.contains("file type: "), "{shown}");
    // For blocks that are stored as bytes, the numbers that they encode are counted.
    let blocks = case("gguf", "quants_k").input();
    let packed = ferry.at("packed.safetensors");
    ferry.convert(&blocks, &packed, &[]);
    assert_eq!(ferry.inspect(&packed)["parameters"], ferry.inspect(&blocks)["parameters"]);
    assert!(text(&ferry, &blocks, &[]).contains("bits per parameter"));
    assert_eq!(model(&ferry, &blocks)["dtypes"]["Q4_K"]["tensors"], 2);
}

#[test]
fn mlx_is_known_by_its_metadata() {
    let ferry = Ferry::new();
    let found = model(&ferry, &case("quantised", "mlx_affine").folder);
    assert_eq!(
        (&found["library"], &found["quantization"]["method"]),
        (&json!("mlx"), &json!("MLX")),
        "{found}"
    );
}

#[test]
fn adapters_say_what_they_adapt() {
    let ferry = Ferry::new();
    let numbers = [0; 4 * 8 * 16];
    let half = |name: &'static str, shape: &'static [u64]| (name, "F32", shape, &numbers[..]);
    let peft = ferry.safetensors(
        "peft/adapter_model.safetensors",
        &[
            half("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", &[8, 16]),
            half("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", &[16, 8]),
        ],
    );
    // Without its configuration, an adapter is recognized by names and shapes.
    let found = &model(&ferry, &peft)["adapter"];
    assert_eq!(*found, json!({"method": "LORA", "ranks": [8], "targets": ["q_proj"]}));
    let config = json!({"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.2-1B", "r": 8,
                        "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]});
    ferry.write("peft/adapter_config.json", config.to_string());
    let found = &model(&ferry, peft.parent().unwrap())["adapter"];
    assert_eq!(
        *found,
        json!({"method": "LORA", "base_model": "meta-llama/Llama-3.2-1B", "ranks": [8], "alpha": 16.0,
               "targets": ["q_proj", "v_proj"]})
    );
    let shown = text(&ferry, peft.parent().unwrap(), &[]);
    for line in ["adapter: LORA, rank 8, alpha 16", "base model: meta-llama", "targets: q_proj, v_proj"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // These are the adapter names that kohya, MLX and llama.cpp use.
    for (name, tensors, target) in [
        (
            "kohya",
            [
                half("lora_unet_mid_block_to_q.lora_down.weight", &[8, 16]),
                half("lora_unet_mid_block_to_q.lora_up.weight", &[16, 8]),
            ],
            "lora_unet",
        ),
        (
            "mlx",
            [
                half("model.layers.0.self_attn.q_proj.lora_a", &[16, 8]),
                half("model.layers.0.self_attn.q_proj.lora_b", &[8, 16]),
            ],
            "q_proj",
        ),
        (
            "ggml",
            [half("blk.0.attn_q.weight.lora_a", &[8, 16]), half("blk.0.attn_q.weight.lora_b", &[16, 8])],
            "attn_q",
        ),
    ] {
        let file = ferry.safetensors(&format!("{name}.safetensors"), &tensors);
        let found = &model(&ferry, &file)["adapter"];
        assert_eq!((&found["ranks"], &found["targets"]), (&json!([8]), &json!([target])), "{name}");
    }
    // A full model is not an adapter.
    assert_eq!(model(&ferry, &case("quantised", "mlx_plain").folder)["adapter"], Value::Null);
}

#[test]
fn pipelines_and_single_files_of_diffusion_say_their_models() {
    let ferry = Ferry::new();
    let weight: &[(&str, &str, &[u64], &[u8])] = &[("w", "F32", &[2], &[0; 8])];
    let index = json!({"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.30.0",
                       "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
                       "safety_checker": [null, null], "scheduler": ["diffusers", "PNDMScheduler"]});
    ferry.write("sd/model_index.json", index.to_string());
    for (name, class) in [("unet", "UNet2DConditionModel"), ("vae", "AutoencoderKL")] {
        ferry.safetensors(&format!("sd/{name}/diffusion_pytorch_model.safetensors"), weight);
        let config = json!({"_class_name": class, "_diffusers_version": "0.30.0"});
        ferry.write(&format!("sd/{name}/config.json"), config.to_string());
    }
    let folder = ferry.at("sd");
    let document = ferry.on("inspect", &folder, &["--json"]).expect(0).json();
    let pipeline = &document["pipeline"];
    assert_eq!(
        (&pipeline["class"], &pipeline["library"]),
        (&json!("StableDiffusionPipeline"), &json!("diffusers 0.30.0"))
    );
    let parts: Vec<_> = pipeline["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), it["is_there"] == true))
        .collect();
    assert_eq!(parts, [("scheduler", false), ("unet", true), ("vae", true)]);
    assert_eq!(document["models"][0]["model"]["architecture"], "UNet2DConditionModel");
    assert!(text(&ferry, &folder, &[]).starts_with("StableDiffusionPipeline (diffusers 0.30.0)\n"));

    let names = [
        "model.diffusion_model.input_blocks.0.0.weight",
        "first_stage_model.encoder.conv_in.weight",
        "cond_stage_model.transformer.text_model.embeddings.position_embedding.weight",
    ];
    let tensors: Vec<_> = names.iter().map(|name| (*name, "F32", &[2_u64][..], &[0; 8][..])).collect();
    let single = ferry.safetensors("v1-5.safetensors", &tensors);
    let found = model(&ferry, &single);
    assert_eq!(
        (&found["architecture"], &found["single_file"]["family"]),
        (&json!("Stable Diffusion 1"), &json!("Stable Diffusion 1"))
    );
    let roles: Vec<_> = found["single_file"]["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|held| held["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["diffusion model", "autoencoder", "text encoder"]);
}

#[test]
fn a_folder_with_a_tokenizer_alone_is_known() {
    let ferry = Ferry::new();
    let tokenizer = json!({"added_tokens": [{"id": 0, "content": "a"}, {"id": 2, "content": "<s>"}],
                           "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}});
    ferry.write("tokens/tokenizer.json", tokenizer.to_string());
    ferry.write("tokens/tokenizer_config.json", r#"{"tokenizer_class": "LlamaTokenizer"}"#);
    let folder = ferry.at("tokens");
    let document = ferry.on("inspect", &folder, &["--json"]).expect(0).json();
    assert_eq!(
        document["model"]["tokenizer"],
        json!({"model": "BPE", "class": "LlamaTokenizer", "tokens": 3, "files": ["tokenizer.json", "tokenizer_config.json"]})
    );
    assert!(text(&ferry, &folder, &[]).contains("LlamaTokenizer, BPE, 3 tokens"));
    ferry.try_convert(&folder, &ferry.at("out.safetensors"), &[]).expect(3);
    ferry.write("nothing/readme.txt", "");
    ferry.on("inspect", ferry.at("nothing"), &[]).expect(3);
}

#[test]
fn what_files_beside_weights_get_wrong_is_said() {
    let ferry = Ferry::new();
    let weight: &[(&str, &str, &[u64], &[u8])] = &[("w", "F32", &[2], &[0; 8])];
    let file = ferry.safetensors("m/model.safetensors", weight);
    for name in ["m/config.json", "m/adapter_config.json", "m/model_index.json"] {
        ferry.write(name, "{");
    }
    let found = model(&ferry, file.parent().unwrap());
    assert!(found["quantization"]["problem"].as_str().unwrap().contains("config.json"), "{found}");
    ferry.write("m/config.json", r#"{"quantization_config": {"quant_method": "hqq"}}"#);
    let found = &model(&ferry, file.parent().unwrap())["quantization"];
    assert_eq!((&found["method"], found["problem"].is_string()), (&json!("hqq"), true), "{found}");
    // For a file with different weights, nothing is reported.
    ferry.write(
        "m/config.json",
        r#"{"quantization_config": {"quant_method": "gptq", "bits": 4}, "model_type": "llama"}"#,
    );
    let found = model(&ferry, &file);
    assert_eq!((&found["quantization"], &found["architecture"]), (&Value::Null, &Value::Null));
}
