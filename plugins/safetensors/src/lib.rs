//! safetensors: one JSON header, then the tensors' bytes side by side.
//!
//! ```text
//! 0      8 bytes   n: the header's length, little-endian, at most 100,000,000
//! 8      n bytes   JSON: {"__metadata__": {KEY: TEXT, ...},
//!                         NAME: {"dtype": D, "shape": [...], "data_offsets": [BEGIN, END]}, ...}
//!                  beginning with `{`, padded with spaces
//! 8 + n            data: row-major, little-endian; offsets count from here, and the tensors cover
//!                  it from its first byte to the file's last without a hole or an overlap
//! ```
//!
//! A model in several files has an index, `model.safetensors.index.json`, that names the file of
//! each tensor.
//!
//! Sources: the format's description and the Rust library in `huggingface/safetensors` (release
//! 0.8.0, `safetensors/src/tensor.rs`), whose rules are enforced here and whose bytes are written;
//! `huggingface_hub/serialization/_base.py` for how a model is split.
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

use tensorferry_hub::{Naming, SHARD_IS_ALONE};
use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// How files are named.
const NAMING: Naming = Naming {
    title: "safetensors",
    stem: "model",
    suffix: ".safetensors",
    index_suffix: ".safetensors.index.json",
};
/// The header's key for metadata, which no tensor can have for a name.
const METADATA_KEY: &str = "__metadata__";
/// The metadata key for the framework that wrote the file: transformers will not load without it.
const FRAMEWORK_KEY: &str = "format";

/// The format.
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
        Ok(Box::new(read::Reader { shard_is_alone: SHARD_IS_ALONE.get(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Safetensors)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
