//! Reads and writes safetensors files, which consist of a JSON header followed by the tensors'
//! bytes without gaps.
//!
//! ```text
//! 0      8 bytes   n: the header's length, little-endian, at most 100,000,000
//! 8      n bytes   JSON: {"__metadata__": {KEY: TEXT, ...},
//!                         NAME: {"dtype": D, "shape": [...], "data_offsets": [BEGIN, END]}, ...}
//!                  starting with `{`, padded with spaces
//! 8 + n            data: row-major, little-endian; offsets are relative to this position, and the
//!                  tensors cover the data up to the end of the file without gaps or overlaps
//! ```
//!
//! A model that consists of several files has an index, `model.safetensors.index.json`, which maps
//! the name of each tensor to its file.
//!
//! Sources: the format's description and the Rust library in `huggingface/safetensors` (release
//! 0.8.0, `safetensors/src/tensor.rs`). This crate enforces the same rules as the library and
//! writes identical bytes. Models are split into files in the same way as in
//! `huggingface_hub/serialization/_base.py`.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod dtype;
mod encode;
mod entries;
mod header;
mod options;
mod tied;

use tensorferry_hub::{Naming, SHARD_OPTION};
use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// File names of safetensors models on the Hugging Face Hub.
const NAMING: Naming = Naming {
    title: "safetensors",
    stem: "model",
    suffix: ".safetensors",
    index_suffix: ".safetensors.index.json",
};
/// The key for metadata in a header. No tensor can have this name.
const METADATA_KEY: &str = "__metadata__";
/// The metadata key for the framework that wrote the file. transformers does not load a file
/// without this key.
const FRAMEWORK_KEY: &str = "format";

/// The safetensors format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Safetensors;

impl Format for Safetensors {
    fn describe(&self) -> Description {
        Description::new("safetensors", "safetensors, one file or sharded")
            .suffixes([NAMING.suffix])
            .members([
                "model*.safetensors",
                "*.safetensors",
                "*.safetensors.index.json",
                "*.safetensors.index.*.json",
            ])
            .capabilities(Capabilities::READ | Capabilities::WRITE | Capabilities::METADATA)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader { shard_is_alone: SHARD_OPTION.get(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Safetensors)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
