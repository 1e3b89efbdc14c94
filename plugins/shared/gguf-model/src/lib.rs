//! Converts the metadata of language models between GGUF files and Hugging Face model folders, in
//! both directions. Metadata is everything except the weights.
//!
//! | File | Contents |
//! |---|---|
//! | `architecture.rs` | the known architectures and their recipes |
//! | `weights.rs` | the names of weights, and a check of their shapes against `config.json` |
//! | `folder.rs` | JSON and bytes of a model folder |
//! | `config.rs` | conversion of `config.json` to the keys that llama.cpp's loader needs |
//! | `rope.rs` | Llama 3's rotary frequency factors, which a GGUF file stores as a tensor |
//! | `tokenizer.rs` | conversion of the tokenizer to metadata; `tokenizer/` has a file for each kind |
//! | `to_hf.rs` | conversion of metadata to `config.json`, `tokenizer.json` and `tokenizer_config.json` |
//! | `entries.rs` | typed access to the metadata that is written or read |
//!
//! Sources: llama.cpp's `convert_hf_to_gguf.py` (with `conversion/llama.py`, `conversion/qwen.py`,
//! `conversion/base.py` and gguf-py's `vocab.py`, as of 2026), transformers' configuration classes
//! for default values, and the `tokenizers` library for the structure of `tokenizer.json`.
#![forbid(unsafe_code)]

mod architecture;
mod config;
mod entries;
mod folder;
mod rope;
mod to_hf;
mod tokenizer;
mod weights;

pub use architecture::{Architecture, FREQUENCIES};
pub use entries::Entries;
pub use to_hf::{HfFiles, HfTensors, to_hf};
pub use weights::has_name;

use config::Config;
use folder::Folder;
use serde_json::Value as Json;
use tensorferry_sdk::{Limits, Result, Source};

/// If a folder contains a transformers model, returns the class or the model type in its
/// `config.json`.
pub fn family(source: &dyn Source, limits: &Limits) -> Result<Option<String>> {
    let Some(json) = (Folder { source, limits }).json("config.json")? else { return Ok(None) };
    let class = json.get("architectures").and_then(|classes| classes.get(0)).and_then(Json::as_str);
    let model_type = json.get("model_type").and_then(Json::as_str);
    Ok(class
        .map(|class| format!("architectures {class}"))
        .or_else(|| model_type.map(|name| format!("model_type {name}"))))
}

/// A Hugging Face model folder of a known architecture.
pub struct HfModel<'a> {
    folder: Folder<'a>,
    config: Config,
}

impl<'a> HfModel<'a> {
    /// Opens a folder's `config.json`. Returns `None` if the file is missing, or if the
    /// architecture in it is unknown.
    pub fn open(source: &'a dyn Source, limits: &'a Limits) -> Result<Option<Self>> {
        let folder = Folder { source, limits };
        let Some(json) = folder.json("config.json")? else { return Ok(None) };
        Ok(Config::of(json)?.map(|config| Self { folder, config }))
    }

    #[must_use]
    pub fn architecture(&self) -> &'static Architecture {
        self.config.architecture
    }

    /// Checks tensors against the configuration: no tensor may be missing, and each must have the
    /// expected shape. The tensors may have transformers names or GGUF names.
    pub fn check_weights<'t>(&self, tensors: impl Iterator<Item = (&'t str, &'t [u64])>) -> Result<()> {
        weights::check(&self.config, tensors)
    }

    /// Returns the settings in `config.json` that GGUF cannot represent. Each item contains the key
    /// and the consequence of losing the setting.
    pub fn unsupported_settings(&self) -> Result<Vec<(&'static str, String)>> {
        self.config.unsupported_settings()
    }

    /// Returns the recipe that renames the model's tensors and reorders their rows for llama.cpp.
    #[must_use]
    pub fn recipe(&self) -> String {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        self.config.architecture.recipe_to_gguf(heads, kv_heads, self.config.width)
    }

    /// Returns the metadata that llama.cpp's loader needs, including the tokenizer. `pre` overrides
    /// llama.cpp's name for the method by which a byte-level tokenizer splits text. Fails if GGUF
    /// cannot represent the tokenizer or the scaling of rotary frequencies.
    pub fn metadata(&self, pre: Option<&str>) -> Result<Entries> {
        let mut entries = Entries::default();
        self.config.add_to(&mut entries)?;
        tokenizer::add_to(&mut entries, &self.folder, &self.config, pre)?;
        Ok(entries)
    }

    /// Returns the factors by which the rotary frequencies are divided, one for each pair of
    /// numbers in an attention head. Llama 3.1 and later have these factors, and GGUF stores them
    /// as the F32 tensor [`FREQUENCIES`].
    pub fn frequencies(&self) -> Result<Option<Vec<f32>>> {
        self.config.frequencies()
    }
}
