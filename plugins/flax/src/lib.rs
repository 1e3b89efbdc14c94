//! Flax's msgpack: what `flax.serialization.to_bytes` makes of a tree of arrays, `flax_model.msgpack` of the Hugging Face Hub,
//! `checkpoint_<step>` of `flax.training`.
//!
//! A file is one msgpack value, almost always a map. Lengths and numbers are big-endian, an array's elements little-endian:
//!
//! ```text
//! 80-8f n, de, df       a map           a0-bf, d9, da, db     text
//! 90-9f n, dc, dd       a list          c4, c5, c6            bytes
//! c7, c8, c9, d4-d8     an extension: its length, its type, its payload
//!
//! type 1, an array      93, a list of the dimensions, the dtype's name as text, the elements as bytes
//! type 2, complex       92, two floats
//! type 3, a scalar      as type 1, without dimensions
//! ```
//!
//! An array of more than 2^30 bytes is a map, whose chunks have one dimension and are joined in the order of their numbers:
//! `{"__msgpack_chunked_array__": true, "shape": {"0": n, ...}, "chunks": {"0": array, ...}}`.
//!
//! A tensor is called by the keys that lead to it, joined with `.`. The dtype's name has no byte order: what Flax itself wrote of
//! a big-endian array lies swapped, and nothing in the file tells it.
//!
//! Sources: `flax/serialization.py` of Flax 0.12, the specification of msgpack, and files that Flax wrote.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod array;
mod chunked;
mod cursor;
mod document;
mod dtype;
mod options;
mod outline;

use tensorferry_hub::Naming;
use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// How the files of a model are called on the Hub.
const NAMING: Naming =
    Naming { title: "Flax", stem: "flax_model", suffix: ".msgpack", index_suffix: ".msgpack.index.json" };

/// The extension that is an array.
const ARRAY: i8 = 1;
/// The extension that is a complex number.
const COMPLEX: i8 = 2;
/// The extension that is a numpy scalar.
const SCALAR: i8 = 3;
/// The class of a numpy scalar's node: only then is it written as one again.
const SCALAR_CLASS: &str = "numpy.generic";
/// How deep maps and lists may nest: msgpack for Python ends at 1024, trees of modules far before.
const MOST_NESTING: usize = 64;

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

/// The formats of this crate, for a program that links it in; `ferry` loads them from a library.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Flax)]
}
