//! Architectures of the Llama family: what each is called on both sides, and what its tensors are called.

/// The tensor that holds the factors of rotary frequencies.
pub const FREQUENCIES: &str = "rope_freqs.weight";

/// An architecture that both sides know.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The word of `general.architecture`, with which its keys begin.
    pub gguf: &'static str,
    /// The class of transformers.
    pub class: &'static str,
    /// The word of `model_type`.
    pub model_type: &'static str,
    /// Whether llama.cpp turns neighbours, where transformers turns halves of a head: rows of Q and K lie in
    /// another order then.
    pub(crate) is_interleaved: bool,
}

/// Of those that share a word of GGUF's the first is the one that a GGUF file is taken for: it computes the same.
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

    /// The one that a GGUF file names.
    #[must_use]
    pub fn of_gguf(word: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.gguf == word)
    }

    /// The words of GGUF for those that are known.
    #[must_use]
    pub fn known() -> String {
        let mut words = KNOWN.map(|known| known.gguf).to_vec();
        words.dedup();
        words.join(", ")
    }

    /// The classes of transformers that are known.
    #[must_use]
    pub fn classes() -> String {
        KNOWN.map(|known| known.class).join(", ")
    }

    /// Whether a tensor holds what a program computes for itself: older versions of transformers saved it.
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
