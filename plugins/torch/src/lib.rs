//! Reads and writes PyTorch checkpoints. The reader supports every container that torch has
//! written, and models that are split into several files.
//!
//! | Container | Read | Written | Described in |
//! |---|---|---|---|
//! | zip archive of `torch.save` | yes | yes | below; `write.rs` |
//! | stream of torch before 1.6 | yes | `-o format=legacy` | `legacy.rs` of [`tensorferry_torch_file`] |
//! | tar archive of torch 0.1 | yes | | `tar.rs` of the same crate |
//! | TorchScript archive | its tensors | | `read/script.rs` |
//! | archive of `torch.export` (`.pt2`) | its tensors | | `read/exported.rs` |
//! | `pytorch_model-*.bin` with an index | yes | `-o max_shard_size` | [`tensorferry_hub`] |
//!
//! ```text
//! <root>/data.pkl                 the object passed to torch.save; its tensors name their storages
//! <root>/byteorder                little or big; missing in files from before torch 2.1 (little-endian)
//! <root>/data/0, data/1, ...      storages, at offsets that are multiples of 64
//! <root>/version                  3
//! <root>/.format_version, .storage_alignment, .data/serialization_id
//! ```
//! Sources: `torch/serialization.py`, `torch/_utils.py` and `caffe2/serialize/inline_container.cc`
//! of PyTorch 2.15, and files written by PyTorch 2.15.
//!
//! A pickle is a program that ferry never executes. [`tensorferry_torch_file`] evaluates it to
//! inert values and records its calls without making them. ferry shows the user which functions the
//! pickle would have called.
#![forbid(unsafe_code)]

mod choose;
mod probe;
mod read;
mod write;

use tensorferry_hub::SHARD_OPTION;
use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};
use tensorferry_torch_file::{Decoding, archive};

/// File name suffixes of PyTorch checkpoints. Outputs have the first suffix.
const SUFFIXES: [&str; 5] = [".pt", ".pth", ".bin", ".ckpt", ".pth.tar"];

/// Name of the archive record for values that a torch file cannot otherwise store. torch reserves
/// the folder `.data` for internal records and never lists it.
const SIDE_RECORD: &str = ".data/tensorferry.json";
/// Name of the side record in error messages.
const SIDE_RECORD_TITLE: &str = "the side record .data/tensorferry.json";

#[derive(Debug, Clone, Copy, Default)]
pub struct Torch;

impl Format for Torch {
    fn describe(&self) -> Description {
        Description::new("torch", "PyTorch checkpoint")
            .suffixes(SUFFIXES)
            .magic(0, archive::MAGIC)
            .members(["pytorch_model*.bin", "*.bin.index.json", "*.bin.index.*.json"])
            .capabilities(
                Capabilities::READ
                    | Capabilities::WRITE
                    | Capabilities::TREE
                    | Capabilities::METADATA
                    | Capabilities::TIES,
            )
            .options([&[SHARD_OPTION.spec()], &Decoding::options()[..], &write::options()].concat())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::TorchReader::new(options)?))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::TorchWriter::new(options)?))
    }
}

/// Returns the formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Torch)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
