//! Flax's msgpack: what `flax.serialization.to_bytes` makes of a tree of arrays, `flax_model.msgpack` of the Hugging Face Hub,
//! `checkpoint_<step>` of `flax.training`.
//!
//! A file is one msgpack value, almost always a map: the crate `tensorferry-flax-file` has its form.
//!
//! A tensor is called by the keys that lead to it, joined with `.`. The dtype's name has no byte order: what Flax itself wrote of
//! a big-endian array lies swapped, and nothing in the file tells it.
//!
//! Sources: `flax/serialization.py` of Flax 0.12, the specification of msgpack, and files that Flax wrote.
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

/// How the files of a model are called on the Hub.
const NAMING: Naming =
    Naming { title: "Flax", stem: "flax_model", suffix: ".msgpack", index_suffix: ".msgpack.index.json" };

/// The format.
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
        Ok(Box::new(read::Reader { shard_is_alone: tensorferry_hub::SHARD_IS_ALONE.get(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Flax)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
