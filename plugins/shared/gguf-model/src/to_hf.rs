//! Converts GGUF metadata to the files of a Hugging Face model folder. This module creates
//! `config.json`, and `tokenizer.rs` converts the tokenizer.

mod tokenizer;

use crate::architecture::Architecture;
use crate::config::DEFAULT_THETA;
use crate::entries::MetadataView;
use crate::rope::Llama3;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result, Value};

/// The files of a transformers model that was converted from a GGUF file.
pub struct HfFiles {
    /// Recipe that renames the tensors and reorders their rows for transformers.
    pub recipe: String,
    /// Whether the recipe reorders the rows of queries and keys.
    pub reorders_rows: bool,
    /// Names and contents of the files.
    pub files: Vec<(&'static str, String)>,
    /// Parts of the metadata that transformers cannot represent, each with the reason.
    pub losses: Vec<(&'static str, String)>,
    /// Metadata keys whose values are represented in the files.
    pub held: Vec<String>,
}

/// The tensor properties that the metadata conversion needs.
pub struct HfTensors<'a> {
    pub names: Vec<&'a str>,
    /// transformers' name for the dtype of most weights; `None` if they are quantized.
    pub dtype: Option<&'static str>,
    /// Values of the tensor [`FREQUENCIES`](crate::FREQUENCIES).
    pub frequencies: Option<Vec<f32>>,
}

/// Keys that describe the GGUF file itself and are meaningless in a model folder.
const FILE_KEYS: [&str; 5] = [
    "general.architecture",
    "general.type",
    "general.file_type",
    "general.quantization_version",
    "general.alignment",
];
/// Architecture keys that the conversion reads or that are redundant.
const READ_KEYS: [&str; 20] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.layer_norm_rms_epsilon",
    "attention.key_length",
    "attention.value_length",
    "rope.freq_base",
    "rope.dimension_count",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "vocab_size",
    "expert_count",
];

/// Converts metadata to the files of a model folder. Fails if the architecture is unknown or the
/// model has experts.
pub fn to_hf(metadata: &BTreeMap<String, Value>, tensors: &HfTensors<'_>) -> Result<HfFiles> {
    let read = MetadataView(metadata);
    let word = read.text("general.architecture");
    let architecture = word.and_then(Architecture::of_gguf).ok_or_else(|| {
        Error::unsupported(
            "unknown architecture: ferry cannot write its names and configuration for transformers",
        )
        .expected(Architecture::known())
        .hint("pass -i names=keep to keep the GGUF file's names")
        .found(word.unwrap_or("no general.architecture"))
    })?;
    let key = |name: &str| format!("{}.{name}", architecture.gguf);
    if read.number(&key("expert_count")).is_some_and(|count| count > 0) {
        return Err(Error::unsupported("models with experts cannot be converted to transformers names")
            .hint("pass -i names=keep to keep the GGUF file's names"));
    }
    let model = Model { architecture, read: &read, tensors, key: &key };
    let mut losses = Vec::new();
    let config = model.config(&mut losses)?;
    let mut files = vec![("config.json", text(&config))];
    let mut held: Vec<String> = FILE_KEYS.iter().map(|&key| key.to_owned()).collect();
    held.extend(READ_KEYS.map(&key));
    match tokenizer::files(&read) {
        Ok(made) => {
            files.extend(made.iter().map(|(name, json)| (*name, text(json))));
            held.extend(metadata.keys().filter(|key| tokenizer::holds(key)).cloned());
        }
        Err(why) => losses.push(("tokenizer.json", why)),
    }
    let (heads, kv_heads, width) = model.attention()?;
    let recipe = architecture.recipe_to_hf(heads, kv_heads, width);
    Ok(HfFiles { recipe, reorders_rows: architecture.is_interleaved, files, losses, held })
}

/// Formats JSON in the same way as transformers.
fn text(json: &Json) -> String {
    serde_json::to_string_pretty(json).unwrap_or_default() + "\n"
}

struct Model<'a> {
    architecture: &'static Architecture,
    read: &'a MetadataView<'a>,
    tensors: &'a HfTensors<'a>,
    key: &'a dyn Fn(&str) -> String,
}

impl Model<'_> {
    /// Returns the number of attention heads, the number of key/value heads, and the width of a
    /// layer's input.
    fn attention(&self) -> Result<(u64, u64, u64)> {
        let heads = self.read.required(&(self.key)("attention.head_count"))?;
        let kv_heads = self.read.number(&(self.key)("attention.head_count_kv")).unwrap_or(heads);
        let width = self.read.required(&(self.key)("embedding_length"))?;
        if heads == 0 || kv_heads == 0 {
            return Err(self.read.missing_key_error(&(self.key)("attention.head_count"), "1 or more"));
        }
        Ok((heads, kv_heads, width))
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.names.contains(&name)
    }

    fn config(&self, losses: &mut Vec<(&'static str, String)>) -> Result<Json> {
        let (heads, kv_heads, width) = self.attention()?;
        let number = |name: &str| self.read.number(&(self.key)(name));
        let required = |name: &str| self.read.required(&(self.key)(name));
        let tokens = self.read.texts("tokenizer.ggml.tokens").map(|tokens| tokens.len() as u64);
        let head = number("attention.key_length").or(number("rope.dimension_count")).unwrap_or(width / heads);
        let epsilon = self.read.float(&(self.key)("attention.layer_norm_rms_epsilon"));
        let theta = self.read.float(&(self.key)("rope.freq_base")).unwrap_or(DEFAULT_THETA);
        let mut config = Map::new();
        let mut set = |name: &str, value: Json| config.insert(name.to_owned(), value);
        set("architectures", json!([self.architecture.class]));
        set("model_type", json!(self.architecture.model_type));
        set("hidden_act", json!("silu"));
        set("hidden_size", json!(width));
        set("intermediate_size", json!(required("feed_forward_length")?));
        set("num_hidden_layers", json!(required("block_count")?));
        set("num_attention_heads", json!(heads));
        set("num_key_value_heads", json!(kv_heads));
        if number("attention.key_length").is_some() || head.checked_mul(heads) != Some(width) {
            set("head_dim", json!(head));
        }
        set("max_position_embeddings", json!(required("context_length")?));
        set(
            "rms_norm_eps",
            json!(epsilon.ok_or_else(|| {
                self.read.missing_key_error(&(self.key)("attention.layer_norm_rms_epsilon"), "a number")
            })?),
        );
        set("rope_theta", json!(theta));
        if let Some(vocabulary) = number("vocab_size").or(tokens) {
            set("vocab_size", json!(vocabulary));
        }
        set("tie_word_embeddings", json!(!self.has("output.weight")));
        if self.architecture.model_type != "qwen2" {
            set("attention_bias", json!(self.has("blk.0.attn_q.bias")));
        }
        if self.architecture.model_type == "llama" {
            set("mlp_bias", json!(self.has("blk.0.ffn_up.bias")));
        }
        for word in ["bos", "eos", "pad"] {
            let key = crate::tokenizer::special::SPECIAL.iter().find(|(known, _)| *known == word);
            if let Some(id) = key.and_then(|(_, key)| self.read.number(key)) {
                set(&format!("{word}_token_id"), json!(id));
            }
        }
        if let Some(dtype) = self.tensors.dtype {
            set("torch_dtype", json!(dtype));
        }
        if let Some(scaling) = self.scaling(theta, head, losses)? {
            set("rope_scaling", scaling);
        }
        set("use_cache", json!(true));
        Ok(Json::Object(config))
    }

    fn scaling(
        &self,
        theta: f64,
        head: u64,
        losses: &mut Vec<(&'static str, String)>,
    ) -> Result<Option<Json>> {
        let float = |name: &str| self.read.float(&(self.key)(&format!("rope.scaling.{name}")));
        if let Some(factors) = &self.tensors.frequencies {
            let Some(found) = Llama3::from_factors(factors, theta, head) else {
                let why = "the rotary frequency factors are not those of Llama 3, so config.json has no rope_scaling for them";
                losses.push((crate::FREQUENCIES, why.to_owned()));
                return Ok(None);
            };
            return Ok(Some(json!({
                "rope_type": "llama3",
                "factor": found.factor,
                "low_freq_factor": found.low,
                "high_freq_factor": found.high,
                "original_max_position_embeddings": 8192,
            })));
        }
        let kind = self.read.text(&(self.key)("rope.scaling.type"));
        let (Some(kind @ ("linear" | "yarn")), Some(factor)) = (kind, float("factor")) else {
            return match kind {
                None | Some("none") => Ok(None),
                Some(other) => Err(Error::unsupported("the rotary position scaling has no counterpart")
                    .expected("linear or yarn with a factor")
                    .hint("pass -i names=keep to keep the GGUF file's names")
                    .found(other)),
            };
        };
        let mut scaling =
            Map::from_iter([("rope_type".to_owned(), json!(kind)), ("factor".to_owned(), json!(factor))]);
        if kind == "yarn" {
            let context = self.read.number(&(self.key)("rope.scaling.original_context_length"));
            scaling.extend(
                context.map(|context| ("original_max_position_embeddings".to_owned(), json!(context))),
            );
            for (name, of) in [
                ("extrapolation_factor", "yarn_ext_factor"),
                ("attention_factor", "yarn_attn_factor"),
                ("beta_fast", "yarn_beta_fast"),
                ("beta_slow", "yarn_beta_slow"),
            ] {
                scaling.extend(float(of).map(|number| (name.to_owned(), json!(number))));
            }
        }
        Ok(Some(Json::Object(scaling)))
    }
}
