//! Multi-rank Megatron-LM checkpoints. Each combination of tensor, pipeline and expert rank has a
//! folder with its part of the model. The reader joins the ranks into one model.
//!
//! ```text
//! latest_checkpointed_iteration.txt          a decimal number, or `release`
//! iter_0000500/ or release/
//!   mp_rank_TT[_PPP][_EEE]/                  tensor rank, pipeline rank and expert rank (if there are several)
//!     model_optim_rng.pt or model_rng.pt     a dict that `torch.save` wrote
//!     distrib_optim.pt                       the sharded optimizer: flat buffers whose layout only the running model knows
//! ```
//!
//! | In the dict | Content |
//! |---|---|
//! | `model`, or `model0`, `model1`, ... | the rank's parameters; several with virtual stages |
//! | `args` | `argparse.Namespace`: the number of ranks, whether the MLP is gated, whether embeddings are tied |
//! | `checkpoint_version` | below 2: a different row order of `query_key_value` |
//! | `iteration`, `optimizer`, `rng_state`, ... | training state |
//!
//! The files do not record how to join the parts of a parameter. This information is available only
//! in the running model (`partition_dim`, `partition_stride`). The reader derives it from the
//! parameter's name ([`tensorferry_megatron_model`]), and for gated MLPs from the arguments and
//! shapes. Each pipeline stage counts its layers from 0. Tensors that several ranks share are
//! compared byte by byte.
//!
//! Sources: `megatron/training/checkpointing.py`, `tools/checkpoint/` and
//! `megatron/core/tensor_parallel` in Megatron-LM with megatron-core 0.16.1, and models with up to
//! twelve ranks that megatron-core wrote and joined.
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

/// Returns the formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Megatron)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
