//! GGUF, the format of llama.cpp: metadata of exact types, then tensors of plain numbers or quantised blocks.
//!
//! ```text
//! 0    4 bytes   "GGUF"
//! 4    u32       the version: 2 or 3; its low 16 bits are zero where all numbers are big-endian
//! 8    u64       how many tensors
//! 16   u64       how many keys
//! 24             keys: a text, a u32 that is the type, a value
//!                tensors: a text, a u32 that is the rank, each dimension as u64 (the fastest first), a u32 that
//!                is the type, a u64 that is the offset in the data
//!                padding up to the alignment, where there are tensors
//!                data: each tensor at an offset of its own; written without gaps in the order of the list
//!
//! text = u64 length, bytes       array = u32 type of the elements, u64 count, elements
//! ```
//!
//! The alignment is the key `general.alignment`, else 32. A model in several files is a split: `set.rs`.
//!
//! | File | What it yields |
//! |---|---|
//! | `types.rs` | the types of tensors |
//! | `cursor.rs` | numbers and texts of a header, bounded by the file |
//! | `metadata.rs` | values, read and written |
//! | `header.rs` | what a file holds |
//! | `big_endian.rs` | blocks whose scales are turned round |
//! | `dequantize.rs` | the numbers that blocks stand for; in its folder, type by type |
//! | `set.rs` | the files of a model |
//! | `file_type.rs` | the mix of types that a file says it is of |
//! | `quantize.rs` | which tensors become blocks; in its folder, how |
//! | `like.rs` | another file whose metadata, order and types an output has |
//! | `model.rs`, `names.rs` | a Hugging Face model folder as a file that llama.cpp loads, and the way back |
//! | `stream.rs` | a file of which parts are quantised while it is written |
//!
//! Sources: `docs/gguf.md` and `src/gguf.cpp` of `ggml-org/ggml`, whose limits the writer keeps to, and
//! `gguf-py` 0.19 (`ggml-org/llama.cpp`), which takes more than ggml and is followed where they differ in reading.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod big_endian;
mod cursor;
mod dequantize;
mod file_type;
mod header;
mod like;
mod metadata;
mod model;
mod names;
mod options;
mod quantize;
mod set;
mod stream;
mod types;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

const MAGIC: &[u8; 4] = b"GGUF";
/// The ending of file names.
const SUFFIX: &str = ".gguf";
/// The key for what the offsets of tensors are multiples of, and what they are where it is not there.
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u32 = 32;
/// The largest page that tensors are mapped by, of 64-bit Arm. ggml takes every power of two, but each tensor has so
/// many bytes of padding.
const MOST_ALIGNMENT: u32 = 64 << 10;
/// The key for what a model is, without which llama.cpp loads none.
const ARCHITECTURE_KEY: &str = "general.architecture";
/// The key for which type most of a model is of.
const FILE_TYPE_KEY: &str = "general.file_type";
/// The key for the version of the blocks' layout.
const QUANTIZATION_VERSION_KEY: &str = "general.quantization_version";
/// The key with which transformers' files say whose tensors they hold (`pt`), which it asks for.
const FRAMEWORK_KEY: &str = "format";
/// `GGML_MAX_DIMS` of ggml.
const MOST_DIMS: u32 = 4;
/// What the key begins with that holds the shape of a tensor which `ComfyUI-GGUF` has made flat.
const ORIGINAL_SHAPE: &str = "comfy.gguf.orig_shape.";

/// The format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gguf;

impl Format for Gguf {
    fn describe(&self) -> Description {
        let holds =
            Capabilities::METADATA | Capabilities::VALUES | Capabilities::DTYPES | Capabilities::NUMBERS;
        Description::new("gguf", "GGUF, of llama.cpp")
            .suffixes([SUFFIX])
            .magic(0, *MAGIC)
            .members(["*.gguf"])
            .capabilities(Capabilities::READ | Capabilities::WRITE | holds)
            .options(options::declared())
            .output_revision(3)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader {
            member_is_alone: options::MEMBER_IS_ALONE.get(options)?,
            dequantize: options::DEQUANTIZE.get(options)?,
            names_are_of_hf: options::NAMES_ARE_OF_HF.get(options)?,
        }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Gguf)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
