//! Orbax checkpoints: a folder with `_METADATA` (JSON) and an array for each leaf of a tree, as JAX programs save it.
//!
//! ```text
//! RUN/STEP/ITEM/                a CheckpointManager's; the latest step of a run is read, all items of a step
//! _METADATA                     the tree: each leaf's keys and kind, and whether its arrays are in OCDBT and zarr 3
//! _strings.json                 leaves that are texts
//! checkpoint                    msgpack: the tree with its small arrays, of older versions and of T5X
//! array_metadatas/process_N     which arrays are typed keys of jax.random
//! NAME/.zarray, NAME/0.1        zarr 2: an array's description, and its chunks
//! NAME/zarr.json, NAME/c/0/1    zarr 3: the same; a chunk may be a shard of chunks with an index at its end
//! manifest.ocdbt, d/...         OCDBT: a B+tree of these keys, and their bytes in a few files
//! ```
//!
//! A tensor is called by the keys that lead to it, joined with `.`; where a step has several items, `ITEM.` comes first. What
//! is written is zarr 2 with one uncompressed chunk an array: the tensor's bytes as they are.
//!
//! | module | what it yields |
//! |---|---|
//! | `locate` | the folders that are meant: steps and items |
//! | `metadata` | the tree of a folder |
//! | `aggregate` | the tree of a folder of older versions and of T5X, with small arrays |
//! | `array_metadata` | typed keys |
//! | `store` | the bytes of a key, as a `span`: a file, or a place that `ocdbt` finds |
//! | `array` | an array's description, from `zarr2` or `zarr3` as an `encoding`, and its chunks |
//! | `shard` | where the chunks of a shard lie in it |
//! | `outline` | the keys of what is written |
//! | `codec` | what decodes a chunk: zstd, gzip, zlib, bzip2, `blosc` |
//!
//! Sources: orbax-checkpoint 0.12 and tensorstore 0.1.86, the specifications of zarr 2 and 3 and of OCDBT, and files that these
//! programs wrote.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod aggregate;
mod array;
mod array_metadata;
mod blosc;
mod chunk_io;
mod codec;
mod dtype;
mod encoding;
mod json;
mod locate;
mod metadata;
mod ocdbt;
mod outline;
mod shard;
mod span;
mod store;
mod zarr2;
mod zarr3;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// The format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Orbax;

impl Format for Orbax {
    fn describe(&self) -> Description {
        Description::new("orbax", "Orbax checkpoint (zarr, OCDBT)")
            .members(["_METADATA", "manifest.ocdbt"])
            .capabilities(Capabilities::READ | Capabilities::WRITE | Capabilities::ATTRIBUTES)
            .output_revision(2)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader))
    }

    fn writer(&self, _options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Orbax)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
