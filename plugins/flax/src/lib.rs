//! Flax's msgpack files: the output of `flax.serialization.to_bytes` for a tree of arrays,
//! `flax_model.msgpack` on the Hugging Face Hub, and `checkpoint_<step>` from `flax.training`.
//!
//! A file contains one msgpack value, usually a map. The crate `tensorferry-flax-file` parses the
//! value.
//!
//! The name of a tensor consists of its keys, joined with `.`. The file does not record the byte
//! order of an array. Flax stores the bytes of a big-endian array unchanged, and omits the byte
//! order from the dtype name.
//!
//! Sources: `flax/serialization.py` of Flax 0.12, the msgpack specification, and files written by
//! Flax.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod options;
mod outline;

use tensorferry_hub::Naming;
use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// File names of Flax models on the Hugging Face Hub.
const NAMING: Naming =
    Naming { title: "Flax", stem: "flax_model", suffix: ".msgpack", index_suffix: ".msgpack.index.json" };

/// The Flax format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flax;

impl Format for Flax {
    fn describe(&self) -> Description {
        Description::new("flax", "Flax msgpack")
            .suffixes([NAMING.suffix])
            .members(["*.msgpack", "*.msgpack.index.json"])
            .capabilities(Capabilities::READ | Capabilities::WRITE | Capabilities::TREE)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader { shard_is_alone: tensorferry_hub::SHARD_OPTION.get(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Flax)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
