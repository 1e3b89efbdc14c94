//! PyTorch distributed checkpoints (DCP). Each rank writes its parts of the tensors into its own
//! files, and a table records the location of each part.
//!
//! ```text
//! .metadata          the table, as a pickle. If ranks save without coordination, each rank writes
//!                    its own table, __<rank>.metadata; together, these tables describe the checkpoint
//! __<rank>_<n>.distcp  the parts in sequence, each as a complete archive written by torch.save
//! ```
//!
//! | In the table | Content |
//! |---|---|
//! | `state_dict_metadata` | for each name, the dtype, size and chunks (offsets, sizes) of the tensor, or a mark for other objects |
//! | `storage_data` | for each name and chunk, the file and the byte range in the file |
//! | `planner_data` | for each name, the path of keys and indices in the nested state |
//!
//! A second variant (`HuggingFaceStorageWriter`) does not have a table. A checkpoint of this
//! variant consists of safetensors files. In each file, the metadata key `DCP_SHARDING_INFO`
//! records where the file's parts start in the whole tensors.
//!
//! ```text
//! shard-<rank + 1>-model-<file>-of-<files>.safetensors
//! {"DCP_SHARDING_INFO": "{NAME: {\"saved_offsets\": [...]}, ...}", "DCP_VERSION": "1.0", "format": "pt"}
//! ```
//! `DCP_SHARDING_INFO` does not contain the size of a tensor, so the reader assumes that a tensor
//! ends where its last part ends. If all files with the last parts of a tensor are missing, the
//! reader cannot detect the loss.
//!
//! Sources: `torch/distributed/checkpoint/` of PyTorch 2.15 (`metadata.py`, `filesystem.py`,
//! `_nested_dict.py`, `hf_storage.py`, `_hf_utils.py`), and files that PyTorch wrote.
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

/// Metadata key in safetensors files that are shards of a distributed checkpoint.
const SHARDING_KEY: &str = "DCP_SHARDING_INFO";

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

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(TorchDcp)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
