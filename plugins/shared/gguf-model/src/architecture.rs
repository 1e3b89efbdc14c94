//! Defines the supported architectures of the Llama family, with their names in GGUF and in
//! transformers.

/// Name of the tensor that contains the scaling factors of the rotary frequencies.
pub const FREQUENCIES: &str = "rope_freqs.weight";

/// An architecture that both GGUF and transformers support.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Value of `general.architecture` in GGUF. It is also the prefix of the architecture's
    /// metadata keys.
    pub gguf: &'static str,
    /// Name of the model class in transformers.
    pub class: &'static str,
    /// Value of `model_type` in `config.json`.
    pub model_type: &'static str,
    /// Whether llama.cpp applies rotary embeddings to pairs of adjacent numbers in an attention
    /// head. transformers always pairs numbers from the two halves of a head. If this is set, the
    /// rows of the Q and K weights are therefore in a different order in GGUF.
    pub(crate) is_interleaved: bool,
}

/// All known architectures. If several architectures have the same name in GGUF, a GGUF file is
/// read as the first of these architectures. All of these architectures compute the same function.
const KNOWN: [Architecture; 4] = [
    Architecture { gguf: "llama", class: "LlamaForCausalLM", model_type: "llama", is_interleaved: true },
    Architecture { gguf: "llama", class: "MistralForCausalLM", model_type: "mistral", is_interleaved: true },
    Architecture { gguf: "qwen2", class: "Qwen2ForCausalLM", model_type: "qwen2", is_interleaved: false },
    Architecture { gguf: "qwen3", class: "Qwen3ForCausalLM", model_type: "qwen3", is_interleaved: false },
];

impl Architecture {
    pub(crate) fn of_class(class: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.class == class)
    }

    pub(crate) fn of_model_type(model_type: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.model_type == model_type)
    }

    /// Returns the architecture that has this name in GGUF.
    #[must_use]
    pub fn of_gguf(word: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.gguf == word)
    }

    /// Lists the names of all known architectures in GGUF.
    #[must_use]
    pub fn known() -> String {
        let mut words = KNOWN.map(|known| known.gguf).to_vec();
        words.dedup();
        words.join(", ")
    }

    /// Lists the class names of all known architectures in transformers.
    #[must_use]
    pub fn classes() -> String {
        KNOWN.map(|known| known.class).join(", ")
    }

    /// Returns whether a tensor can be computed from the configuration. Older versions of
    /// transformers saved such tensors.
    #[must_use]
    pub fn is_computed(name: &str) -> bool {
        [".rotary_emb.inv_freq", ".attention.masked_bias", ".attention.bias"]
            .iter()
            .any(|end| name.ends_with(end))
    }

    pub(crate) fn recipe_to_gguf(&self, heads: u64, kv_heads: u64, width: u64) -> String {
        if self.is_interleaved {
            format!("llama-to-ggml,heads={heads},kv_heads={kv_heads},width={width}")
        } else {
            "qwen-to-ggml".to_owned()
        }
    }

    pub(crate) fn recipe_to_hf(&self, heads: u64, kv_heads: u64, width: u64) -> String {
        if self.is_interleaved {
            format!("llama-from-ggml,heads={heads},kv_heads={kv_heads},width={width}")
        } else {
            "qwen-from-ggml".to_owned()
        }
    }
}
