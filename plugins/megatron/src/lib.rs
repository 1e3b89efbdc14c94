//! Megatron-LM's checkpoints of ranks: each rank of tensor, pipeline and expert parallelism has a folder with its
//! part of every layer. They are read as the one model that they are parts of.
//!
//! ```text
//! latest_checkpointed_iteration.txt          a decimal number, or `release`
//! iter_0000500/ or release/
//!   mp_rank_TT[_PPP][_EEE]/                  tensor, pipeline (if there is more than one stage), expert rank (likewise)
//!     model_optim_rng.pt or model_rng.pt     a dict that `torch.save` wrote
//!     distrib_optim.pt                       the sharded optimizer: flat buffers that only the live model can name
//! ```
//!
//! | In the dict | What it says |
//! |---|---|
//! | `model`, or `model0`, `model1`, ... | the rank's parameters; one of several for virtual stages |
//! | `args` | `argparse.Namespace`: how many ranks there are, whether the MLP is gated, whether embeddings are tied |
//! | `checkpoint_version` | below 2: another order of the rows of `query_key_value` |
//! | `iteration`, `optimizer`, `rng_state`, ... | the state of training |
//!
//! How parts belong together is not in the file: the live parameter has it (`partition_dim`, `partition_stride`). The
//! names say it ([`tensorferry_megatron_model`]), and of gated MLPs the arguments and shapes do. Layers are counted from 0 in every stage.
//! What all ranks have alike is compared, byte by byte.
//!
//! Source of the facts: `megatron/training/checkpointing.py`, `tools/checkpoint/` and `megatron/core/tensor_parallel` of
//! Megatron-LM with megatron-core 0.16.1, and models of up to twelve ranks that it wrote and joined itself.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod args;
mod like;
mod model;
mod rank_file;
mod run_folder;
mod subfolder;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// The format `megatron`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Megatron;

impl Format for Megatron {
    fn describe(&self) -> Description {
        Description::new("megatron", "Megatron-LM checkpoint of ranks")
            .members([run_folder::TRACKER])
            .capabilities(Capabilities::READ | Capabilities::WRITE)
            .options([read::options(), write::options()].concat())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader::new(options)?))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer::new(options)?))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Megatron)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
