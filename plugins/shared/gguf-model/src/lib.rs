//! What a GGUF file says of a language model beside its weights, from the files of a Hugging Face model folder and
//! back to them.
//!
//! | File | What it yields |
//! |---|---|
//! | `architecture.rs` | the architectures that are known, their recipes |
//! | `weights.rs` | the names of weights, and whether they are what `config.json` says |
//! | `folder.rs` | JSON and bytes of a model folder |
//! | `config.rs` | `config.json` as metadata: the keys that llama.cpp's loader needs |
//! | `rope.rs` | Llama 3's factors of rotary frequencies, which a GGUF file has as a tensor |
//! | `tokenizer.rs` | the tokenizer as metadata; in its folder, each kind of it |
//! | `to_hf.rs` | metadata as `config.json`, `tokenizer.json` and `tokenizer_config.json` |
//! | `entries.rs` | metadata that is being made, metadata that is read |
//!
//! Sources: the conversion that llama.cpp's `convert_hf_to_gguf.py` does (its `conversion/llama.py`,
//! `conversion/qwen.py`, `conversion/base.py` and gguf-py's `vocab.py` of 2026), transformers' configurations for the
//! defaults of keys, and the `tokenizers` library for the form of `tokenizer.json`.
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

/// Returns the class, or the family, that a folder's `config.json` names, if the folder is a model of transformers.
///
/// # Errors
/// Returns an error if `config.json` is not JSON, or cannot be read.
pub fn family(source: &dyn Source, limits: &Limits) -> Result<Option<String>> {
    let Some(json) = (Folder { source, limits }).json("config.json")? else { return Ok(None) };
    let class = json.get("architectures").and_then(|classes| classes.get(0)).and_then(Json::as_str);
    let model_type = json.get("model_type").and_then(Json::as_str);
    Ok(class
        .map(|class| format!("architectures {class}"))
        .or_else(|| model_type.map(|name| format!("model_type {name}"))))
}

/// A Hugging Face model folder whose architecture is known.
pub struct HfModel<'a> {
    folder: Folder<'a>,
    config: Config,
}

impl<'a> HfModel<'a> {
    /// Opens a folder's `config.json`; `None` where there is none, or where it is of an architecture that is not known
    /// here.
    ///
    /// # Errors
    /// Malformed: a `config.json` that is no JSON, or lacks what every model has; i/o.
    pub fn open(source: &'a dyn Source, limits: &'a Limits) -> Result<Option<Self>> {
        let folder = Folder { source, limits };
        let Some(json) = folder.json("config.json")? else { return Ok(None) };
        Ok(Config::of(json)?.map(|config| Self { folder, config }))
    }

    /// Its architecture.
    #[must_use]
    pub fn architecture(&self) -> &'static Architecture {
        self.config.architecture
    }

    /// Checks the model's tensors, under the names of transformers or of GGUF, against its configuration: that each has
    /// the dimensions that it says, and that none is missing.
    ///
    /// # Errors
    /// Malformed, with the tensor, what `config.json` says, and what was found.
    pub fn check_weights<'t>(&self, tensors: impl Iterator<Item = (&'t str, &'t [u64])>) -> Result<()> {
        weights::check(&self.config, tensors)
    }

    /// What `config.json` says that a GGUF file has no key for: which key, and what comes of that.
    ///
    /// # Errors
    /// Malformed, for numbers that are none.
    pub fn unheld(&self) -> Result<Vec<(&'static str, String)>> {
        self.config.unheld()
    }

    /// The recipe that gives its tensors the names and the order of rows that llama.cpp wants.
    #[must_use]
    pub fn recipe(&self) -> String {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        self.config.architecture.recipe_to_gguf(heads, kv_heads, self.config.width)
    }

    /// The metadata that a loader needs, the tokenizer's included. `pre` is the word for how a byte-level tokenizer splits
    /// text, where the user gives one.
    ///
    /// # Errors
    /// Unsupported: a tokenizer, or a scaling of rotary frequencies, that has no counterpart, by name; malformed: files
    /// that contradict themselves; i/o.
    pub fn metadata(&self, pre: Option<&str>) -> Result<Entries> {
        let mut entries = Entries::default();
        self.config.add_to(&mut entries)?;
        tokenizer::add_to(&mut entries, &self.folder, &self.config, pre)?;
        Ok(entries)
    }

    /// The factors by which rotary frequencies are divided, one for each pair of a head's numbers: the F32 tensor
    /// [`FREQUENCIES`] of Llama 3.1 and later.
    ///
    /// # Errors
    /// Malformed, for parameters that no model can have.
    pub fn frequencies(&self) -> Result<Option<Vec<f32>>> {
        self.config.frequencies()
    }
}
