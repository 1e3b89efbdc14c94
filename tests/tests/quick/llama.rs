//! Tests the conversion of a transformers model folder to a GGUF file and back.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tensorferry_tests::Ferry;
use tensorferry_tests::model::safetensors;

/// The number of inputs of a layer. The constants below are the numbers of heads and key heads, and
/// the size of a head.
const WIDTH: usize = 8;
const HEADS: usize = 2;
const KEYS: usize = 1;
const HEAD: usize = 4;
const TOKENS: [&str; 5] = ["a", "b", "ab", "Ġ", "<|end|>"];

struct Tensor {
    name: &'static str,
    shape: Vec<u64>,
    numbers: Vec<f32>,
}

/// Returns the weights of a model with one layer. All values are different.
fn weights() -> Vec<Tensor> {
    let mut next = 0.0;
    let of = |(name, shape): (&'static str, &[u64])| {
        let count = shape.iter().product::<u64>();
        let numbers = (0..count).map(|_| {
            next += 1.0;
            next
        });
        Tensor { name, shape: shape.to_vec(), numbers: numbers.collect() }
    };
    [
        ("model.embed_tokens.weight", &[5, 8][..]),
        ("model.layers.0.input_layernorm.weight", &[8]),
        ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
        ("model.layers.0.self_attn.q_proj.bias", &[8]),
        ("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
        ("model.layers.0.self_attn.v_proj.weight", &[4, 8]),
        ("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
        ("model.layers.0.post_attention_layernorm.weight", &[8]),
        ("model.layers.0.mlp.gate_proj.weight", &[32, 8]),
        ("model.layers.0.mlp.up_proj.weight", &[32, 8]),
        ("model.layers.0.mlp.down_proj.weight", &[8, 32]),
        ("model.norm.weight", &[8]),
    ]
    .map(of)
    .into()
}

fn bytes(tensors: &[Tensor]) -> Vec<u8> {
    let data: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| tensor.numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
        .collect();
    let entries: Vec<_> =
        tensors.iter().zip(&data).map(|(t, data)| (t.name, "F32", &*t.shape, &**data)).collect();
    safetensors(&entries)
}

fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KEYS, "vocab_size": TOKENS.len(),
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 4000000.0, "tie_word_embeddings": true,
        "bos_token_id": 4, "eos_token_id": 4, "attention_bias": true,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192},
    })
}

fn tokenizer() -> Value {
    let special = json!({"SpecialToken": {"id": TOKENS[4]}});
    let vocab: serde_json::Map<String, Value> =
        (0..).zip(&TOKENS[..4]).map(|(id, token): (u32, _)| ((*token).to_owned(), id.into())).collect();
    json!({
        "added_tokens": [{"id": 4, "content": TOKENS[4], "special": true, "normalized": false}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
        "post_processor": {
            "type": "TemplateProcessing", "single": [special, {"Sequence": {"id": "A"}}],
            "pair": [special, {"Sequence": {"id": "A"}}, special, {"Sequence": {"id": "B"}}],
        },
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]]},
    })
}

fn folder(ferry: &Ferry, config: &Value, tokenizer: &Value) -> PathBuf {
    let folder = ferry.at("model");
    std::fs::create_dir_all(&folder).unwrap();
    ferry.write("model/model.safetensors", bytes(&weights()));
    ferry.write("model/config.json", config.to_string());
    ferry.write("model/tokenizer.json", tokenizer.to_string());
    ferry.write(
        "model/tokenizer_config.json",
        json!({"bos_token": TOKENS[4], "eos_token": TOKENS[4]}).to_string(),
    );
    folder
}

/// Interleaves the halves of each head, like `LlamaModel.permute` in llama.cpp's converter.
fn interleaved(tensor: &Tensor, heads: usize) -> Vec<f32> {
    let row = tensor.numbers.len() / (heads * HEAD);
    let rows: Vec<&[f32]> = tensor.numbers.chunks(row).collect();
    let order = (0..heads).flat_map(|head| (0..HEAD).map(move |i| head * HEAD + i % 2 * (HEAD / 2) + i / 2));
    order.flat_map(|place| rows[place].to_vec()).collect()
}

/// Returns the expected contents of the file, as safetensors.
fn expected() -> Vec<u8> {
    let names = [
        "token_embd.weight",
        "blk.0.attn_norm.weight",
        "blk.0.attn_q.weight",
        "blk.0.attn_q.bias",
        "blk.0.attn_k.weight",
        "blk.0.attn_v.weight",
        "blk.0.attn_output.weight",
        "blk.0.ffn_norm.weight",
        "blk.0.ffn_gate.weight",
        "blk.0.ffn_up.weight",
        "blk.0.ffn_down.weight",
        "output_norm.weight",
    ];
    let renamed = names.into_iter().zip(weights()).map(|(name, tensor)| {
        let numbers = match name.split('.').nth(2) {
            Some("attn_q") => interleaved(&tensor, HEADS),
            Some("attn_k") => interleaved(&tensor, KEYS),
            _ => tensor.numbers.clone(),
        };
        Tensor { name, numbers, ..tensor }
    });
    let mut tensors: Vec<Tensor> = renamed.collect();
    // A wavelength of 6 positions is unchanged. A wavelength of 12,566 positions is scaled, because
    // it exceeds the 8192 positions of the original model.
    tensors.push(Tensor { name: "rope_freqs.weight", shape: vec![2], numbers: vec![1.0, 8.0] });
    bytes(&tensors)
}

fn sidecars(report: &Value) -> Vec<&str> {
    let losses = report["losses"].as_array().unwrap().iter();
    losses.filter(|loss| loss["kind"] == "sidecar").map(|loss| loss["what"].as_str().unwrap()).collect()
}

fn typed(metadata: &Value, key: &str) -> Value {
    metadata[key].clone()
}

#[test]
fn a_folder_becomes_a_file_that_llama_cpp_loads_and_comes_back() {
    let ferry = Ferry::new();
    let folder = folder(&ferry, &config(), &tokenizer());
    ferry.write("model/generation_config.json", "{}");
    let file = ferry.at("model.gguf");
    let report = ferry.convert(&folder, &file, &["--json", "--verify"]).json();
    assert_eq!(sidecars(&report), ["generation_config.json"], "{report}");
    assert!(report["notes"].to_string().contains("llama-to-ggml,heads=2,kv_heads=1,width=8"), "{report}");
    let wanted = ferry.write("wanted.safetensors", expected());
    assert!(ferry.equal(&file, &wanted), "{}", ferry.diff(&file, &wanted, &[]).said());
    ferry.diff(&folder, &file, &["-i", "names=hf"]).expect(0);
    let metadata = ferry.inspect(&file)["metadata"].clone();
    for (key, value) in [
        ("general.architecture", json!("llama")),
        ("general.file_type", json!(0)),
        ("llama.block_count", json!(1)),
        ("llama.attention.head_count_kv", json!(1)),
        ("llama.rope.dimension_count", json!(4)),
        ("llama.vocab_size", json!(5)),
        ("tokenizer.ggml.model", json!("gpt2")),
        ("tokenizer.ggml.pre", json!("gpt-2")),
        ("tokenizer.ggml.bos_token_id", json!(4)),
        ("tokenizer.ggml.add_bos_token", json!(true)),
    ] {
        assert_eq!(typed(&metadata, key), value, "{key}: {metadata}");
    }
    let back = ferry.at("back/");
    let options = ["--to", "safetensors", "-i", "names=hf", "--json", "--verify"];
    let report = ferry.convert(&file, &back, &options).json();
    assert!(ferry.equal(&folder, &back), "{}", ferry.diff(&folder, &back, &[]).said());
    assert!(sidecars(&report).is_empty(), "{report}");
    let read =
        |name: &str| -> Value { serde_json::from_slice(&std::fs::read(back.join(name)).unwrap()).unwrap() };
    let made = read("config.json");
    for (key, value) in config().as_object().unwrap() {
        assert_eq!(&made[key], value, "{key}");
    }
    assert_eq!(made["torch_dtype"], "float32");
    let made = read("tokenizer.json");
    assert_eq!(made["model"]["merges"], tokenizer()["model"]["merges"]);
    assert_eq!(made["added_tokens"][0]["content"], TOKENS[4]);
    assert_eq!(read("tokenizer_config.json")["eos_token"], TOKENS[4]);
    let again = ferry.at("again.gguf");
    ferry.convert(&back, &again, &["--verify"]);
    assert!(ferry.equal(&file, &again), "{}", ferry.diff(&file, &again, &[]).said());
}

#[test]
fn quantised_in_the_same_run_or_carried_as_it_is() {
    let ferry = Ferry::new();
    let folder = folder(&ferry, &config(), &tokenizer());
    let [small, kept, plain] = ["small.gguf", "kept.gguf", "plain.gguf"].map(|name| ferry.at(name));
    let options = ["-o", "quantize=*.ffn_down.weight=q8_0", "-o", "set=a.b=u8:1", "-o", "set=a.c=string:x=y"];
    ferry.convert(&folder, &small, &options);
    let document = ferry.inspect(&small);
    assert_eq!((&document["metadata"]["a.b"], &document["metadata"]["a.c"]), (&json!(1), &json!("x=y")));
    assert_eq!(ferry.tensors(&small)["blk.0.ffn_down.weight"].0, "Q8_0");
    let report = ferry.convert(&folder, &kept, &["-o", "names=keep", "--json"]).json();
    assert!(ferry.equal(&folder, &kept));
    assert_eq!(sidecars(&report), ["config.json", "tokenizer.json", "tokenizer_config.json"]);
    // With `like`, the output has the order, types and metadata of the named file.
    let weights = ferry.write("weights.safetensors", expected());
    ferry.convert(&weights, &plain, &["-o", &format!("like={}", small.display())]);
    assert!(ferry.equal(&small, &plain), "{}", ferry.diff(&small, &plain, &[]).said());
    assert_eq!(ferry.inspect(&plain)["metadata"], document["metadata"]);
    let names = |path: &Path| -> Vec<Value> {
        ferry.inspect(path)["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tensor| tensor["name"].clone())
            .collect()
    };
    assert_eq!(names(&plain), names(&small));
}

#[test]
fn what_has_no_counterpart_is_refused_by_name() {
    let with = |change: &dyn Fn(&mut Value, &mut Value)| {
        let (ferry, mut config, mut tokenizer) = (Ferry::new(), config(), tokenizer());
        change(&mut config, &mut tokenizer);
        let folder = folder(&ferry, &config, &tokenizer);
        (ferry, folder)
    };
    let refused = |said: &[&str], change: &dyn Fn(&mut Value, &mut Value)| {
        let (ferry, folder) = with(change);
        ferry.try_convert(&folder, &ferry.at("x.gguf"), &[]).expect(3).says(said);
        assert!(!ferry.at("x.gguf").exists());
        (ferry, folder)
    };
    refused(&["Unigram", "tokenizer.json"], &|_, tokenizer| tokenizer["model"]["type"] = json!("Unigram"));
    refused(&["longrope", "rope_scaling"], &|config, _| {
        config["rope_scaling"]["rope_type"] = json!("longrope");
    });
    refused(&["hidden_act", "gelu"], &|config, _| config["hidden_act"] = json!("gelu"));
    refused(&["num_hidden_layers", "config.json"], &|config, _| config["num_hidden_layers"] = json!("one"));
    refused(&["num_attention_heads"], &|config, _| config["num_attention_heads"] = json!(0));
    refused(&["partial_rotary_factor", "0.5"], &|config, _| config["partial_rotary_factor"] = json!(0.5));
    refused(&["beyond the vocabulary"], &|_, tokenizer| tokenizer["added_tokens"][0]["id"] = json!(7));
    refused(&["too many tokens"], &|config, tokenizer| {
        config.as_object_mut().unwrap().remove("vocab_size");
        tokenizer["added_tokens"][0]["id"] = json!(20_000_000);
    });
    // Test weights that do not match the configuration.
    for (key, value, said) in [
        ("vocab_size", json!(3), &["model.embed_tokens.weight", "3 (vocab_size)", "[5, 8]"][..]),
        ("hidden_size", json!(16), &["16 (hidden_size)"]),
        ("num_key_value_heads", json!(2), &["k_proj", "8 (2 num_key_value_heads of 4)", "[4, 8]"]),
        ("num_hidden_layers", json!(2), &["model.layers.1.input_layernorm.weight", "num_hidden_layers"]),
        ("tie_word_embeddings", json!(false), &["lm_head.weight", "tie_word_embeddings", "names=keep"]),
    ] {
        refused(said, &|config, _| config[key] = value.clone());
    }
    // The check also applies if the user passes the steps explicitly.
    let (ferry, folder) = with(&|config, _| config["num_hidden_layers"] = json!(2));
    let [right, wrong] = [8, 16].map(|width| format!("llama-to-ggml,heads=2,kv_heads=1,width={width}"));
    ferry
        .try_convert(&folder, &ferry.at("x.gguf"), &["--step", &right])
        .expect(3)
        .says(&["model.layers.1.input_layernorm.weight"]);
    ferry
        .try_convert(&folder, &ferry.at("x.safetensors"), &["--step", &wrong])
        .expect(2)
        .says(&["self_attn.q_proj.weight", "64 elements"]);
    let (ferry, folder) =
        refused(&["splitting text", "Whitespace", "llama-bpe", "tokenizer.ggml.pre"], &|_, tokenizer| {
            tokenizer["pre_tokenizer"] = json!({"type": "Whitespace"});
        });
    ferry.convert(&folder, &ferry.at("x.gguf"), &["-o", "set=tokenizer.ggml.pre=string:gpt-2"]);
    let (ferry, folder) = with(&|config, _| {
        config["architectures"] = json!(["MistralForCausalLM"]);
        config["sliding_window"] = json!(16);
    });
    let report = ferry.convert(&folder, &ferry.at("x.gguf"), &["--json"]).json();
    assert!(report["losses"].to_string().contains("config.json: sliding_window"), "{report}");
    // No program could load a file of an unknown architecture. Such a file is written only on
    // request.
    let (ferry, folder) =
        refused(&["OtherForCausalLM", "LlamaForCausalLM", "Qwen3ForCausalLM", "names=keep"], &|config, _| {
            config["architectures"] = json!(["OtherForCausalLM"]);
        });
    for useless in ["set=general.architecture=string:other", "quantize=q8_0"] {
        ferry.try_convert(&folder, &ferry.at("x.gguf"), &["-o", useless]).expect(3).says(&["names=keep"]);
    }
    let report = ferry.convert(&folder, &ferry.at("x.gguf"), &["-o", "names=keep", "--json"]).json();
    assert!(sidecars(&report).contains(&"config.json"), "{report}");
    assert!(ferry.equal(&folder, &ferry.at("x.gguf")));
    // The conversion back supports the same architectures.
    let other = ferry.at("x.gguf");
    ferry
        .try_convert(&other, &ferry.at("out"), &["--to", "safetensors", "-i", "names=hf"])
        .expect(3)
        .says(&["llama"]);
}
