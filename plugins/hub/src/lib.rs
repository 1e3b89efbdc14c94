//! A model in several files, as the Hugging Face Hub names and splits it: shards, and an index that
//! names the file of each tensor. The plugins `safetensors` and `torch` are made of it.
//!
//! ```text
//! model.safetensors                        pytorch_model.bin                        not split
//! model-00001-of-00002.safetensors, ...    pytorch_model-00001-of-00002.bin, ...    the shards
//! model.safetensors.index.json             pytorch_model.bin.index.json             the index
//! ```
//!
//! | File | What it yields |
//! |---|---|
//! | `choose.rs` | which files of an input are the model |
//! | `index.rs` | the index, read, held against the files, and written |
//! | `shard.rs` | the names of shards, and what goes into each |
//! | `json.rs` | JSON whose keys are unique and whose lists are bounded |
//! | `listing.rs` | what an error says of several things |
//!
//! Source of the facts: `huggingface_hub/serialization/_base.py`.
#![forbid(unsafe_code)]

mod choose;
mod index;
pub mod json;
mod listing;
mod shard;

pub use choose::{Choice, choose, is_member};
pub use index::Index;
pub use listing::list;
pub use shard::{Names, ShardName, split};

/// How the files of models in one format are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    /// The format, for messages: `safetensors`.
    pub title: &'static str,
    /// What a model's files are called where nobody names them: `model`.
    pub stem: &'static str,
    /// The ending of a file of tensors: `.safetensors`.
    pub suffix: &'static str,
    /// The ending of an index: `.safetensors.index.json`.
    pub index_suffix: &'static str,
}

#[cfg(test)]
mod tests {
    use super::Naming;

    pub(crate) const NAMING: Naming = Naming {
        title: "safetensors",
        stem: "model",
        suffix: ".safetensors",
        index_suffix: ".safetensors.index.json",
    };
}
