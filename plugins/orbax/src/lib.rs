//! An Orbax checkpoint is a folder that contains `_METADATA` (JSON) and one array per leaf of a
//! tree. JAX programs write this format.
//!
//! ```text
//! RUN/STEP/ITEM/                layout of a CheckpointManager: ferry reads the latest step, with all its items
//! _METADATA                     the tree: keys and kind of each leaf, and whether arrays use OCDBT and zarr 3
//! _strings.json                 string leaves
//! checkpoint                    msgpack: the tree with its small arrays (older versions and T5X)
//! array_metadatas/process_N     which arrays are typed keys of jax.random
//! NAME/.zarray, NAME/0.1        zarr 2: an array's description, and its chunks
//! NAME/zarr.json, NAME/c/0/1    zarr 3: the same; a chunk may be a shard of chunks with an index at its end
//! manifest.ocdbt, d/...         OCDBT: a B+tree of these keys, and their bytes in a few files
//! ```
//!
//! The name of a tensor consists of its keys, joined with `.`. If a step has several items, `ITEM.`
//! precedes the keys. The writer uses zarr 2 and one chunk per array. The chunk is not compressed,
//! and contains the unchanged bytes of the tensor.
//!
//! | Module | Contents |
//! |---|---|
//! | `locate` | the folders to read: steps and items |
//! | `metadata` | the tree of a folder |
//! | `aggregate` | the tree and small arrays of older versions and of T5X |
//! | `array_metadata` | typed keys |
//! | `store` | the bytes of a key, as a `span`: a file, or a range found by `ocdbt` |
//! | `array` | an array's chunks, and its description from `zarr2` or `zarr3` as an `encoding` |
//! | `shard` | the chunks inside a shard |
//! | `outline` | the keys of written arrays |
//! | `codec` | chunk decoders: zstd, gzip, zlib, bzip2, `blosc` |
//!
//! Sources: orbax-checkpoint 0.12 and tensorstore 0.1.86, the specifications of zarr 2 and 3 and of
//! OCDBT, and files written by these programs.
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

/// The Orbax format.
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

/// Returns the formats of this crate, for programs that link the crate.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Orbax)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
