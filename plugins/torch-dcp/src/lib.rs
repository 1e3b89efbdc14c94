//! PyTorch's distributed checkpoints (DCP): each rank writes its pieces of the tensors into files of
//! its own, and a table says which piece lies where.
//!
//! ```text
//! .metadata          a pickle: the table. Where the ranks did not coordinate, each has its own,
//!                    __<rank>.metadata, and together they are the table
//! __<rank>_<n>.distcp  pieces side by side; each is a whole archive of torch.save
//! ```
//!
//! | In the table | What it says |
//! |---|---|
//! | `state_dict_metadata` | for each name: a tensor's dtype and size and its chunks (offsets, sizes), or that it is another object |
//! | `storage_data` | for each name and chunk: the file, and the bytes in it |
//! | `planner_data` | for each name the path of keys and indices that it had in the nested state |
//!
//! The other variant (`HuggingFaceStorageWriter`) has no table: its files are safetensors files, and
//! the metadata key `DCP_SHARDING_INFO` of each says where in the whole tensors its own belong.
//!
//! ```text
//! shard-<rank + 1>-model-<file>-of-<files>.safetensors
//! {"DCP_SHARDING_INFO": "{NAME: {\"saved_offsets\": [...]}, ...}", "DCP_VERSION": "1.0", "format": "pt"}
//! ```
//! It does not say how large a tensor is: that is where its last piece ends, and files that are
//! missing at the end of every tensor cannot be noticed.
//!
//! Source of the facts: `torch/distributed/checkpoint/` of PyTorch 2.15 (`metadata.py`,
//! `filesystem.py`, `_nested_dict.py`, `hf_storage.py`, `_hf_utils.py`), and files that it wrote.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod chunks;
mod halves;
mod megatron;
mod members;
mod merged;
mod shards;
mod table;
mod tree;
pub mod written;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, ShardTag, Source, TensorReader,
    TensorWriter,
};

/// The metadata key of a safetensors file that is a shard of a distributed checkpoint.
const SHARDING_KEY: &str = "DCP_SHARDING_INFO";

/// The format `torch-dcp`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TorchDcp;

impl Format for TorchDcp {
    fn describe(&self) -> Description {
        Description::new("torch-dcp", "PyTorch distributed checkpoint")
            .suffixes([members::DATA_SUFFIX, members::TABLE])
            .members([members::TABLE.to_owned(), format!("*{}", members::DATA_SUFFIX)])
            .capabilities(Capabilities::READ | Capabilities::WRITE)
            .options([ShardTag::spec()])
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context).map(Some)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { tag: ShardTag::of(options)? }))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(TorchDcp)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
