//! A format for tests: it goes where safetensors and torch do not, so that the ABI and the host's
//! copy are tried there. Tensors of several blocks, chunks behind a codec, a dtype that the host
//! does not know, aliases, several data files, and an index whose length nobody knows before the
//! data is written.
//!
//! A checkpoint is an index `NAME.trial` and data files `NAME.trial.0`, `NAME.trial.1`, ... beside
//! it. All numbers are little-endian; a *text* is its length (u32) and UTF-8, a *list* is its count
//! (u32) and its items.
//!
//! | data file  | what                                                                       |
//! |------------|----------------------------------------------------------------------------|
//! | 8 bytes    | `TRIALDAT`                                                                 |
//! | u32        | CRC-32C of everything behind this header; 0 where the next field is 0      |
//! | u32        | 1 if that is known: a file that was streamed had to begin before it ended  |
//! | the rest   | storages, perhaps with zeros between them                                  |
//!
//! | index      | what                                                                       |
//! |------------|----------------------------------------------------------------------------|
//! | 8 bytes    | `TRIALIDX`                                                                 |
//! | list       | data files: name (text), length (u64)                                      |
//! | list       | dtypes: name (text), elements, bytes, swap unit (u32 each)                 |
//! | list       | storages: data file (u32), offset, bytes there, bytes decoded (u64 each), codec (u8: 0 none, 1 runs), byte order (u8: 0 little, 1 big), CRC-32C of the bytes there (u32) |
//! | list       | joined storages, numbered on: byte order (u8), ranges: a list of storage (u32), offset, bytes (u64 each) |
//! | list       | tensors: name (text), dtype (text), shape (list of u64), blocks            |
//! |            | blocks are a list: origin, shape (u64 for each dimension), storage (u32), offset in it (u64), strides (i64 for each dimension, in elements) |
//! | list       | aliases: name (text), tensor (u32)                                         |
//! | list       | metadata: key (text), value                                                |
//! | list       | attributes: tensor (text), key (text), value                               |
//! |            | a value is a list of nodes, children before their parents: kind (u32), class (text), bytes (their count and they), how many of the nodes before it that are nobody's child yet are its children (u32) |
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
