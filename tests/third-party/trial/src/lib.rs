//! A format for tests of the ABI and of the host's copy. It has features that safetensors and torch
//! lack: tensors in several blocks, encoded chunks, a dtype that the host does not define, aliases,
//! and several data files. The length of its index is unknown before the data is written.
//!
//! A checkpoint is an index `NAME.trial` and data files `NAME.trial.0`, `NAME.trial.1`, ... in the
//! same folder. All numbers are little-endian. A *text* is its length (u32) and UTF-8, and a *list*
//! is its count (u32) and its items.
//!
//! | data file  | what                                                                       |
//! |------------|----------------------------------------------------------------------------|
//! | 8 bytes    | `TRIALDAT`                                                                 |
//! | u32        | CRC-32C of everything after this header; 0 if the next field is 0          |
//! | u32        | 1 if the CRC is known; 0 in a streamed file, whose header is written first |
//! | the rest   | storages, possibly with zeros between them                                 |
//!
//! | index      | what                                                                       |
//! |------------|----------------------------------------------------------------------------|
//! | 8 bytes    | `TRIALIDX`                                                                 |
//! | list       | data files: name (text), length (u64)                                      |
//! | list       | dtypes: name (text), elements, bytes, swap unit (u32 each)                 |
//! | list       | storages: data file (u32), offset, bytes in the file, bytes decoded (u64 each), codec (u8: 0 none, 1 runs), byte order (u8: 0 little, 1 big), CRC-32C of the bytes in the file (u32) |
//! | list       | joined storages, numbered on: byte order (u8), ranges: a list of storage (u32), offset, bytes (u64 each) |
//! | list       | tensors: name (text), dtype (text), shape (list of u64), blocks            |
//! |            | blocks are a list: origin, shape (u64 for each dimension), storage (u32), offset in it (u64), strides (i64 for each dimension, in elements) |
//! | list       | aliases: name (text), tensor (u32)                                         |
//! | list       | metadata: key (text), value                                                |
//! | list       | attributes: tensor (text), key (text), value                               |
//! |            | a value is a list of nodes, children before their parents: kind (u32), class (text), bytes (their count, then the bytes), number of children (u32), which are the last nodes before it that have no parent yet |
//! | text       | the format that the tensors came from                                      |
//! | u32        | CRC-32C of the index up to here                                            |
#![forbid(unsafe_code)]

mod read;
mod write;

mod codec;
mod grid;
mod index;
mod sample;

pub use sample::sample;

use tensorferry_sdk::{Capabilities, Description, Format, Options, Result, TensorReader, TensorWriter};

tensorferry_sdk::export_plugin!(Trial);

/// The format `trial`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trial;

impl Format for Trial {
    fn describe(&self) -> Description {
        Description::new("trial", "trial of the plugin interface")
            .suffixes([".trial"])
            .magic(0, index::MAGIC)
            .members([write::INDEX_IN_FOLDER])
            .capabilities(
                Capabilities::READ
                    | Capabilities::WRITE
                    | Capabilities::METADATA
                    | Capabilities::VALUES
                    | Capabilities::ATTRIBUTES
                    | Capabilities::TIES,
            )
            .options(write::options())
            .output_revision(2)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        write::writer(options)
    }
}
