//! Defines the weights of a model: their names in transformers and in GGUF, and the shapes that
//! `config.json` requires. If a weight had a different shape, its rows would be assigned to the
//! wrong heads, or llama.cpp could not load the output.

use crate::config::Config;
use crate::folder::contradicts;
use std::collections::HashSet;
use tensorferry_sdk::Result;

/// Prefixes of layer weight names in transformers and in GGUF.
const IN_LAYER: [&str; 2] = ["model.layers.", "blk."];

/// A module with a weight and possibly a bias.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Module {
    /// Names in transformers and in GGUF.
    names: [&'static str; 2],
    /// Shape of the weight. The first dimension is also the length of the bias.
    shape: &'static [Dim],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Dim {
    Vocabulary,
    Width,
    /// Number of heads multiplied by the head size.
    Queries,
    /// Number of key/value heads multiplied by the head size.
    Keys,
    Head,
    Inner,
}

const fn module(names: [&'static str; 2], shape: &'static [Dim]) -> Module {
    Module { names, shape }
}

const OUTPUT: &str = "lm_head";
/// Modules outside of layers.
const GLOBAL_MODULES: [Module; 3] = [
    module(["model.embed_tokens", "token_embd"], &[Dim::Vocabulary, Dim::Width]),
    module(["model.norm", "output_norm"], &[Dim::Width]),
    module([OUTPUT, "output"], &[Dim::Vocabulary, Dim::Width]),
];
/// Modules of each layer.
const LAYER_MODULES: [Module; 11] = [
    module(["input_layernorm", "attn_norm"], &[Dim::Width]),
    module(["post_attention_layernorm", "ffn_norm"], &[Dim::Width]),
    module(["self_attn.q_proj", "attn_q"], &[Dim::Queries, Dim::Width]),
    module(["self_attn.k_proj", "attn_k"], &[Dim::Keys, Dim::Width]),
    module(["self_attn.v_proj", "attn_v"], &[Dim::Keys, Dim::Width]),
    module(["self_attn.o_proj", "attn_output"], &[Dim::Width, Dim::Queries]),
    module(["self_attn.q_norm", "attn_q_norm"], &[Dim::Head]),
    module(["self_attn.k_norm", "attn_k_norm"], &[Dim::Head]),
    module(["mlp.gate_proj", "ffn_gate"], &[Dim::Inner, Dim::Width]),
    module(["mlp.up_proj", "ffn_up"], &[Dim::Inner, Dim::Width]),
    module(["mlp.down_proj", "ffn_down"], &[Dim::Width, Dim::Inner]),
];
/// Attention modules that have a bias in Qwen 2.
const WITH_BIAS: [&str; 3] = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];

/// The module and parameter to which a tensor's name refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Weight {
    layer: Option<u64>,
    module: &'static Module,
    is_bias: bool,
}

impl Weight {
    /// Returns the weight that has this name in transformers (`side` 0) or in GGUF (`side` 1).
    fn named(name: &str, side: usize) -> Option<Self> {
        let (module, end) = name.rsplit_once('.')?;
        let is_bias = match end {
            "weight" => false,
            "bias" => true,
            _ => return None,
        };
        let of = |modules: &'static [Module], name: &str| modules.iter().find(|it| it.names[side] == name);
        let (layer, module) = match module.strip_prefix(IN_LAYER[side]) {
            None => (None, of(&GLOBAL_MODULES, module)?),
            Some(rest) => {
                let (number, module) = rest.split_once('.')?;
                let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
                (Some(number.parse().ok().filter(|_| is_number)?), of(&LAYER_MODULES, module)?)
            }
        };
        Some(Self { layer, module, is_bias })
    }

    /// Returns the name in transformers.
    fn name(&self) -> String {
        let end = if self.is_bias { "bias" } else { "weight" };
        match self.layer {
            Some(layer) => format!("{}{layer}.{}.{end}", IN_LAYER[0], self.module.names[0]),
            None => format!("{}.{end}", self.module.names[0]),
        }
    }
}

/// Returns whether GGUF has a name for a transformers tensor.
#[must_use]
pub fn has_name(name: &str) -> bool {
    Weight::named(name, 0).is_some()
}

/// Checks tensors against the configuration: no tensor may be missing, and each must have the
/// expected shape. The tensors may have transformers names or GGUF names. Tensors without a known
/// name are ignored.
pub(crate) fn check<'t>(config: &Config, tensors: impl Iterator<Item = (&'t str, &'t [u64])>) -> Result<()> {
    let expected =
        Expected { config, layers: config.layers()?, head: config.head()?, inner: config.inner()? };
    let mut found = HashSet::new();
    for (name, shape) in tensors {
        let weight = Weight::named(name, 0).or_else(|| Weight::named(name, 1));
        let Some(weight) = weight else { continue };
        expected.check(weight, shape).map_err(|error| error.tensor(name))?;
        found.insert(weight);
    }
    expected.check_all_are_there(&found)
}

/// The values of the configuration that determine the shapes of weights.
struct Expected<'a> {
    config: &'a Config,
    layers: u64,
    head: u64,
    inner: u64,
}

impl Expected<'_> {
    fn check(&self, weight: Weight, shape: &[u64]) -> Result<()> {
        if let Some(layer) = weight.layer.filter(|&layer| layer >= self.layers) {
            return Err(contradicts("a weight belongs to a layer that the model does not have")
                .expected(format!("{} layers (num_hidden_layers)", self.layers))
                .found(format!("layer {layer}")));
        }
        let dims = weight.module.shape;
        let dims = if weight.is_bias { &dims[..1] } else { dims };
        let is = |(&dim, &len): (&Dim, &u64)| self.len(dim).is_none_or(|expected| expected == len);
        if dims.len() == shape.len() && dims.iter().zip(shape).all(is) {
            return Ok(());
        }
        let words: Vec<String> = dims.iter().map(|&dim| self.words(dim)).collect();
        Err(contradicts("the shape of a weight contradicts the configuration")
            .expected(format!("[{}]", words.join(", ")))
            .found(format!("{shape:?}")))
    }

    /// Returns the length of a dimension, if the configuration defines it.
    fn len(&self, dim: Dim) -> Option<u64> {
        match dim {
            Dim::Vocabulary => self.config.vocabulary,
            Dim::Width => Some(self.config.width),
            Dim::Queries => Some(self.config.heads.saturating_mul(self.head)),
            Dim::Keys => Some(self.config.kv_heads.saturating_mul(self.head)),
            Dim::Head => Some(self.head),
            Dim::Inner => Some(self.inner),
        }
    }

    /// Describes the length of a dimension with the configuration keys that define the length.
    fn words(&self, dim: Dim) -> String {
        let Config { heads, kv_heads, .. } = self.config;
        let len = self.len(dim).map_or("any".to_owned(), |len| len.to_string());
        let head = self.head;
        match dim {
            Dim::Vocabulary => format!("{len} (vocab_size)"),
            Dim::Width => format!("{len} (hidden_size)"),
            Dim::Queries => format!("{len} ({heads} num_attention_heads of {head})"),
            Dim::Keys => format!("{len} ({kv_heads} num_key_value_heads of {head})"),
            Dim::Head => format!("{len} (head_dim, or hidden_size / num_attention_heads)"),
            Dim::Inner => format!("{len} (intermediate_size)"),
        }
    }

    fn check_all_are_there(&self, found: &HashSet<Weight>) -> Result<()> {
        let of_layers =
            (0..self.layers).flat_map(|layer| LAYER_MODULES.iter().map(move |module| (Some(layer), module)));
        let all = GLOBAL_MODULES.iter().map(|module| (None, module)).chain(of_layers);
        for (layer, module) in all {
            for is_bias in [false, true] {
                let weight = Weight { layer, module, is_bias };
                if self.needs(module, is_bias) && !found.contains(&weight) {
                    return Err(contradicts("a weight is missing from the model")
                        .tensor(weight.name())
                        .expected(self.requirement(weight))
                        .found("no such tensor"));
                }
            }
        }
        Ok(())
    }

    fn needs(&self, module: &Module, is_bias: bool) -> bool {
        let [name, _] = module.names;
        let model_type = self.config.architecture.model_type;
        match name {
            _ if is_bias => model_type == "qwen2" && WITH_BIAS.contains(&name),
            OUTPUT => !self.config.is_tied(),
            "self_attn.q_norm" | "self_attn.k_norm" => model_type == "qwen3",
            _ => true,
        }
    }

    fn requirement(&self, weight: Weight) -> String {
        match weight.layer {
            None if weight.module.names[0] == OUTPUT => {
                "this tensor, because tie_word_embeddings is not true".to_owned()
            }
            None => "this tensor in every model".to_owned(),
            Some(_) => format!("this tensor in each of {} layers (num_hidden_layers)", self.layers),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn names_are_those_of_the_llama_family() {
        for (name, is_one) in [
            ("model.embed_tokens.weight", true),
            ("model.layers.10.self_attn.q_proj.bias", true),
            ("model.layers.0.mlp.down_proj.weight", true),
            ("model.layers.x.mlp.down_proj.weight", false),
            ("model.layers.+1.mlp.down_proj.weight", false),
            ("model.layers.0.mlp.down_proj.qweight", false),
            ("model.layers.0.mlp.experts.0.w1.weight", false),
            ("lm_head.weight", true),
            ("blk.0.attn_q.weight", false),
            ("weight", false),
        ] {
            assert_eq!(has_name(name), is_one, "{name}");
        }
        assert_eq!(
            Weight::named("blk.7.attn_q.bias", 1).unwrap().name(),
            "model.layers.7.self_attn.q_proj.bias"
        );
    }

    /// Returns the configuration of a model with two layers, four heads of size eight, and two
    /// key/value heads.
    fn config(kind: &str) -> Value {
        json!({
            "model_type": kind, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "head_dim": 8,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50,
        })
    }

    fn weights(kind: &str) -> Vec<(String, Vec<u64>)> {
        let mut all = vec![
            ("model.embed_tokens.weight".to_owned(), vec![50, 16]),
            ("model.norm.weight".to_owned(), vec![16]),
            ("lm_head.weight".to_owned(), vec![50, 16]),
        ];
        for layer in 0..2 {
            let mut add = |name: &str, shape: &[u64]| {
                all.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            add("input_layernorm.weight", &[16]);
            add("post_attention_layernorm.weight", &[16]);
            for (name, rows) in [("q", 32), ("k", 16), ("v", 16)] {
                add(&format!("self_attn.{name}_proj.weight"), &[rows, 16]);
                if kind == "qwen2" {
                    add(&format!("self_attn.{name}_proj.bias"), &[rows]);
                }
                if kind == "qwen3" && name != "v" {
                    add(&format!("self_attn.{name}_norm.weight"), &[8]);
                }
            }
            add("self_attn.o_proj.weight", &[16, 32]);
            add("mlp.gate_proj.weight", &[24, 16]);
            add("mlp.up_proj.weight", &[24, 16]);
            add("mlp.down_proj.weight", &[16, 24]);
        }
        all
    }

    fn checked(config: &Value, weights: &[(String, Vec<u64>)]) -> Result<()> {
        let config = Config::of(config.clone()).unwrap().unwrap();
        check(&config, weights.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())))
    }

    #[test]
    fn a_configuration_that_says_otherwise_is_refused_with_its_key() {
        for kind in ["llama", "mistral", "qwen2", "qwen3"] {
            checked(&config(kind), &weights(kind)).unwrap();
        }
        for (key, value, says) in [
            ("hidden_size", json!(32), &["embed_tokens", "32 (hidden_size)", "[50, 16]"][..]),
            ("vocab_size", json!(49), &["embed_tokens", "49 (vocab_size)"]),
            ("intermediate_size", json!(23), &["layers.0.mlp.gate_proj", "23 (intermediate_size)"]),
            ("num_attention_heads", json!(8), &["q_proj", "64 (8 num_attention_heads of 8)", "[32, 16]"]),
            ("num_key_value_heads", json!(4), &["k_proj", "32 (4 num_key_value_heads of 8)"]),
            ("head_dim", json!(4), &["q_proj", "16 (4 num_attention_heads of 4)"]),
            ("num_hidden_layers", json!(1), &["layers.1.", "1 layers", "found layer 1"]),
            ("num_hidden_layers", json!(1_u64 << 52), &["layers.2.input_layernorm.weight", "missing"]),
        ] {
            let mut config = config("llama");
            config[key] = value;
            let error = checked(&config, &weights("llama")).unwrap_err().to_string();
            assert!(
                error.contains("config.json") && says.iter().all(|says| error.contains(says)),
                "{key}: {error}"
            );
        }
    }

    #[test]
    fn a_weight_that_is_missing_is_named() {
        for (kind, name) in [
            ("llama", "lm_head.weight"),
            ("llama", "model.norm.weight"),
            ("llama", "model.layers.1.self_attn.o_proj.weight"),
            ("qwen2", "model.layers.0.self_attn.v_proj.bias"),
            ("qwen3", "model.layers.1.self_attn.k_norm.weight"),
        ] {
            let mut some = weights(kind);
            some.retain(|(known, _)| known != name);
            let error = checked(&config(kind), &some).unwrap_err().to_string();
            assert!(error.contains("missing") && error.contains(name), "{error}");
        }
        let mut tied = config("llama");
        tied["tie_word_embeddings"] = json!(true);
        checked(
            &tied,
            &weights("llama")[..2].iter().chain(&weights("llama")[3..]).cloned().collect::<Vec<_>>(),
        )
        .unwrap();
    }
}
