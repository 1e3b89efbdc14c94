//! GGUF, llama.cpp's model format. A file contains typed metadata, and then tensors of plain
//! numbers or quantized blocks.
//!
//! ```text
//! 0    4 bytes   "GGUF"
//! 4    u32       version: 2 or 3; if its low 16 bits are zero, all numbers are big-endian
//! 8    u64       number of tensors
//! 16   u64       number of metadata entries
//! 24             metadata entries: string key, u32 type, value
//!                tensors: string name, u32 rank, u64 per dimension (fastest first), u32 type,
//!                u64 offset from the start of the data
//!                padding to the alignment, if there are tensors
//!                data: each tensor at its own offset; ferry writes them without gaps in list order
//!
//! string = u64 length, bytes       array = u32 element type, u64 count, elements
//! ```
//!
//! The alignment is the value of `general.alignment`, or 32 if this key is missing. A model that is
//! stored in several files is called a split (see `set.rs`).
//!
//! | File | Contents |
//! |---|---|
//! | `types.rs` | tensor types |
//! | `cursor.rs` | numbers and strings of a header, bounded by the file length |
//! | `metadata.rs` | reading and writing of metadata values |
//! | `header.rs` | the parsed header |
//! | `big_endian.rs` | blocks with byte-swapped scales |
//! | `dequantize.rs` | values of quantized blocks; its folder has one file per family of types |
//! | `set.rs` | the files of a model |
//! | `file_type.rs` | `general.file_type`, the mix of tensor types |
//! | `quantize.rs` | selection of tensors to quantize; its folder has the encoders |
//! | `like.rs` | a second file that supplies metadata, order and types |
//! | `model.rs`, `names.rs` | conversion between Hugging Face model folders and files that llama.cpp loads |
//! | `stream.rs` | files quantized while they are written |
//!
//! Sources: `docs/gguf.md` and `src/gguf.cpp` in `ggml-org/ggml`, and `gguf-py` 0.19 in
//! `ggml-org/llama.cpp`. gguf-py accepts more files than ggml. The reader accepts the files that
//! gguf-py accepts, and the writer respects ggml's limits.
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
const SUFFIX: &str = ".gguf";
/// Key of the alignment of tensor offsets. If the key is missing, the default applies.
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u32 = 32;
/// Maximum alignment in bytes. The maximum is the largest page size of 64-bit Arm, because tensors
/// are memory-mapped by pages. ggml accepts any power of two, but the padding per tensor may be
/// almost as long as the alignment.
const MAX_ALIGNMENT: u32 = 64 << 10;
/// Key of the model architecture. llama.cpp does not load files without it.
const ARCHITECTURE_KEY: &str = "general.architecture";
/// Key of the file type, which identifies the main tensor type of a model.
const FILE_TYPE_KEY: &str = "general.file_type";
/// Key of the version of the block layout in quantized tensors.
const QUANTIZATION_VERSION_KEY: &str = "general.quantization_version";
/// Metadata key of the framework (`pt`) in a safetensors file. transformers requires this key.
const FRAMEWORK_KEY: &str = "format";
/// Maximum number of dimensions, `GGML_MAX_DIMS` in ggml.
const MAX_DIMS: u32 = 4;
/// Prefix of keys for the original shapes of tensors that `ComfyUI-GGUF` flattened.
const ORIGINAL_SHAPE: &str = "comfy.gguf.orig_shape.";

/// The GGUF format.
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

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Gguf)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
