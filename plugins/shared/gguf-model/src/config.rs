//! Converts `config.json` to the GGUF metadata that llama.cpp's loader needs. The keys are
//! `ARCHITECTURE.*`.

use crate::architecture::Architecture;
use crate::entries::Entries;
use crate::folder::impossible_value as malformed;
use crate::rope::Llama3;
use serde_json::{Map, Value as Json};
use tensorferry_sdk::{Error, Result};

/// The default values that transformers uses for missing keys (`LlamaConfig` in transformers 4).
const DEFAULT_CONTEXT: u64 = 2048;
const DEFAULT_EPSILON: f64 = 1e-6;
pub(crate) const DEFAULT_THETA: f64 = 10_000.0;

pub(crate) struct Config {
    pub(crate) architecture: &'static Architecture,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    /// `hidden_size`.
    pub(crate) width: u64,
    /// `vocab_size`.
    pub(crate) vocabulary: Option<u64>,
    pub(crate) json: Map<String, Json>,
}

impl Config {
    /// Parses a configuration. Returns `None` if the architecture is unknown.
    pub(crate) fn of(json: Json) -> Result<Option<Self>> {
        let Json::Object(json) = json else { return Ok(None) };
        let class = json.get("architectures").and_then(|classes| classes.get(0)).and_then(Json::as_str);
        let model_type = json.get("model_type").and_then(Json::as_str);
        let architecture = match class {
            Some(class) => Architecture::of_class(class),
            None => model_type.and_then(Architecture::of_model_type),
        };
        let Some(architecture) = architecture else { return Ok(None) };
        let heads = required(&json, "num_attention_heads")?;
        let width = required(&json, "hidden_size")?;
        let kv_heads = number(&json, "num_key_value_heads")?.unwrap_or(heads);
        let vocabulary = number(&json, "vocab_size")?;
        let config = Self { architecture, heads, kv_heads, width, vocabulary, json };
        if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) || !config.head()?.is_multiple_of(2)
        {
            return Err(malformed("num_attention_heads")
                .expected("a multiple of num_key_value_heads, and an even head size")
                .found(format!("{heads} heads, {kv_heads} key/value heads, hidden_size {width}")));
        }
        Ok(Some(config))
    }

    pub(crate) fn layers(&self) -> Result<u64> {
        required(&self.json, "num_hidden_layers")
    }

    /// Returns `intermediate_size`.
    pub(crate) fn inner(&self) -> Result<u64> {
        required(&self.json, "intermediate_size")
    }

    /// Returns whether the output layer shares the weight of the embeddings. The setting defaults
    /// to false in all known architectures.
    pub(crate) fn is_tied(&self) -> bool {
        self.json.get("tie_word_embeddings").and_then(Json::as_bool) == Some(true)
    }

    /// Returns the size of an attention head.
    pub(crate) fn head(&self) -> Result<u64> {
        match number(&self.json, "head_dim")? {
            Some(0) => Err(malformed("head_dim").expected("1 or more").found(0)),
            Some(head) => Ok(head),
            None if self.width.is_multiple_of(self.heads.max(1)) => Ok(self.width / self.heads.max(1)),
            None => Err(malformed("hidden_size")
                .expected(format!("a multiple of {}", self.heads))
                .found(self.width)),
        }
    }

    /// Returns the settings that scale rotary positions: `rope_parameters` in transformers 5, or
    /// `rope_scaling` in earlier versions.
    fn rope(&self) -> Option<&Map<String, Json>> {
        ["rope_parameters", "rope_scaling"].iter().find_map(|key| self.json.get(*key)?.as_object())
    }

    fn theta(&self) -> Result<f64> {
        let own = float(&self.json, "rope_theta")?;
        let in_rope = self.rope().map(|rope| float(rope, "rope_theta")).transpose()?.flatten();
        Ok(own.or(in_rope).unwrap_or(DEFAULT_THETA))
    }

    /// Returns the fraction of an attention head to which the rotary embedding applies.
    fn rotary_part(&self) -> Result<Option<f64>> {
        let key = "partial_rotary_factor";
        let in_rope = self.rope().map(|rope| float(rope, key)).transpose()?.flatten();
        Ok(float(&self.json, key)?.or(in_rope))
    }

    fn rope_type(&self) -> Option<&str> {
        let rope = self.rope()?;
        ["rope_type", "type"].iter().find_map(|key| rope.get(*key)?.as_str())
    }

    /// Returns the scaling factors of the rotary frequencies, if the model has any.
    pub(crate) fn frequencies(&self) -> Result<Option<Vec<f32>>> {
        let Some(rope) = self.rope().filter(|_| self.rope_type() == Some("llama3")) else { return Ok(None) };
        let or = |key: &str, default: f64| Ok::<_, Error>(float(rope, key)?.unwrap_or(default));
        let parameters = Llama3 {
            factor: or("factor", 8.0)?,
            low: or("low_freq_factor", 1.0)?,
            high: or("high_freq_factor", 4.0)?,
            context: or("original_max_position_embeddings", 8192.0)?,
        };
        parameters.factors(self.theta()?, self.head()?).map(Some)
    }

    /// Returns the settings that GGUF cannot represent for this architecture. Each item contains
    /// the key in `config.json` and the consequence of losing the setting.
    pub(crate) fn unsupported_settings(&self) -> Result<Vec<(&'static str, String)>> {
        let Some(window) = self.window()? else { return Ok(Vec::new()) };
        let why = format!(
            "llama.cpp's {} attends to all positions: beyond {window} tokens its results differ from the model's",
            self.architecture.gguf
        );
        Ok(vec![("config.json: sliding_window", why)])
    }

    /// Returns the length of the attention window, if it is shorter than the context.
    fn window(&self) -> Result<Option<u64>> {
        let Some(window) = number(&self.json, "sliding_window")? else { return Ok(None) };
        let is_true = |key: &str| self.json.get(key).and_then(Json::as_bool) == Some(true);
        let is_used = match self.architecture.model_type {
            "mistral" => true,
            "qwen2" | "qwen3" => is_true("use_sliding_window"),
            _ => false,
        };
        Ok(Some(window).filter(|&window| is_used && self.context().is_ok_and(|context| window < context)))
    }

    fn context(&self) -> Result<u64> {
        Ok(number(&self.json, "max_position_embeddings")?.unwrap_or(DEFAULT_CONTEXT))
    }

    pub(crate) fn add_to(&self, entries: &mut Entries) -> Result<()> {
        let act = self.json.get("hidden_act").and_then(Json::as_str).unwrap_or("silu");
        if act != "silu" {
            return Err(unsupported_error("hidden_act", act).expected("silu"));
        }
        if let Some(part) = self.rotary_part()?.filter(|&part| part != 1.0) {
            return Err(unsupported_error("partial_rotary_factor", &part.to_string()).expected(1));
        }
        let word = self.architecture.gguf;
        let key = |name: &str| format!("{word}.{name}");
        entries.text("general.architecture", word);
        entries.text("general.type", "model");
        entries.u32("general.quantization_version", 2)?;
        entries.u32(&key("block_count"), self.layers()?)?;
        entries.u32(&key("context_length"), self.context()?)?;
        entries.u32(&key("embedding_length"), self.width)?;
        entries.u32(&key("feed_forward_length"), self.inner()?)?;
        entries.u32(&key("attention.head_count"), self.heads)?;
        entries.u32(&key("attention.head_count_kv"), self.kv_heads)?;
        let epsilon = float(&self.json, "rms_norm_eps")?.unwrap_or(DEFAULT_EPSILON);
        entries.f32(&key("attention.layer_norm_rms_epsilon"), epsilon)?;
        entries.f32(&key("rope.freq_base"), self.theta()?)?;
        if number(&self.json, "head_dim")?.is_some() {
            entries.u32(&key("attention.key_length"), self.head()?)?;
            entries.u32(&key("attention.value_length"), self.head()?)?;
        }
        if word == "llama" {
            entries.u32(&key("rope.dimension_count"), self.head()?)?;
            if let Some(vocabulary) = self.vocabulary {
                entries.u32(&key("vocab_size"), vocabulary)?;
            }
        }
        self.add_scaling(entries, &key)
    }

    fn add_scaling(&self, entries: &mut Entries, key: &dyn Fn(&str) -> String) -> Result<()> {
        let (Some(rope), Some(kind)) = (self.rope(), self.rope_type()) else { return Ok(()) };
        let float = |name: &str| float(rope, name);
        match kind {
            // Llama 3's scaling factors are written as a tensor instead of metadata.
            "default" | "llama3" => return Ok(()),
            "linear" | "yarn" => {}
            other => return Err(unsupported_error("rope_scaling", other).expected("linear, yarn or llama3")),
        }
        let factor = float("factor")?.ok_or_else(|| malformed("rope_scaling").expected("a factor"))?;
        entries.text(&key("rope.scaling.type"), kind);
        entries.f32(&key("rope.scaling.factor"), factor)?;
        if kind == "yarn" {
            let context = number(rope, "original_max_position_embeddings")?
                .or(number(&self.json, "original_max_position_embeddings")?)
                .or(number(&self.json, "max_position_embeddings")?);
            entries.u32(&key("rope.scaling.original_context_length"), context.unwrap_or(DEFAULT_CONTEXT))?;
            for (name, of) in [
                ("yarn_ext_factor", "extrapolation_factor"),
                ("yarn_attn_factor", "attention_factor"),
                ("yarn_beta_fast", "beta_fast"),
                ("yarn_beta_slow", "beta_slow"),
            ] {
                if let Some(number) = float(of)? {
                    entries.f32(&key(&format!("rope.scaling.{name}")), number)?;
                }
            }
        }
        Ok(())
    }
}

fn unsupported_error(key: &str, value: &str) -> Error {
    Error::unsupported(format!("a model whose {key} is {value:?} has no counterpart in GGUF"))
        .file("config.json")
        .hint("pass -o names=keep to write the tensors under their own names")
}

fn number(json: &Map<String, Json>, key: &str) -> Result<Option<u64>> {
    match json.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => {
            // Some tools write whole numbers as floats, such as 8192.0.
            let whole = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
            let number = value.as_u64().or(whole.map(|number| number as u64));
            number.map(Some).ok_or_else(|| malformed(key).expected("a whole number").found(value))
        }
    }
}

fn required(json: &Map<String, Json>, key: &str) -> Result<u64> {
    number(json, key)?.ok_or_else(|| malformed(key).expected("a whole number").found("nothing"))
}

fn float(json: &Map<String, Json>, key: &str) -> Result<Option<f64>> {
    match json.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => {
            value.as_f64().map(Some).ok_or_else(|| malformed(key).expected("a number").found(value))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    fn config(kind: &str, more: &Json) -> Config {
        let mut json = json!({
            "model_type": kind, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 64,
        });
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Config::of(json).unwrap().unwrap()
    }

    #[test]
    fn a_window_that_is_in_use_is_said() {
        for (kind, more, is_said) in [
            ("mistral", json!({"sliding_window": 16}), true),
            ("mistral", json!({"sliding_window": 64}), false),
            ("mistral", json!({"sliding_window": null}), false),
            ("qwen2", json!({"sliding_window": 16, "use_sliding_window": false}), false),
            ("qwen2", json!({"sliding_window": 16, "use_sliding_window": true}), true),
            ("llama", json!({"sliding_window": 16}), false),
        ] {
            assert_eq!(
                !config(kind, &more).unsupported_settings().unwrap().is_empty(),
                is_said,
                "{kind}: {more}"
            );
        }
    }

    #[test]
    fn heads_are_turned_as_a_whole_or_refused() {
        for (more, is_taken) in [
            (json!({"partial_rotary_factor": 1.0}), true),
            (json!({"partial_rotary_factor": 0.5}), false),
            (json!({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}), false),
        ] {
            let added = config("llama", &more).add_to(&mut Entries::default());
            assert_eq!(added.is_ok(), is_taken, "{more}");
        }
    }
}
