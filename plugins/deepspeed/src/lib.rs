//! DeepSpeed ZeRO checkpoints. The weights are stored as flat vectors without names, which are
//! split across the ranks. Each rank's file contains the rank's pieces of the vectors.
//!
//! ```text
//! latest                                               the name of the newest folder
//! <tag>/mp_rank_00_model_states.pt                     stages 1, 2: the module, and the layout of the vectors
//! <tag>/zero_pp_rank_<r>_mp_rank_00_model_states.pt    stage 3: one for each rank
//! <tag>/[bf16_]zero_pp_rank_<r>_mp_rank_00_optim_states.pt   the rank's pieces of the vectors
//! <tag>/zero/<name>/{fp32,exp_avg,exp_avg_sq,step}.pt  universal checkpoints: each parameter whole
//! <tag>/mp_rank_<t>_model_states.pt                    tensor parallelism: rank t's parts of the module
//! <tag>/layer_<n>-model_<t>-model_states.pt            pipeline parallelism: rank t's parts of one layer
//! ```
//! All of these files except `latest` were saved with `torch.save`.
//!
//! | In the model states | Content |
//! |---|---|
//! | `param_shapes` | for each group of parameters: their names and shapes, in the order of the vectors |
//! | `module`, `buffer_names` | the state dict; in stage 3 its parameters are empty, its buffers are not |
//! | `frozen_param_shapes`, `frozen_param_fragments` | parameters that were not trained: whole, or the rank's piece |
//! | `shared_params` | additional names for parameters |
//!
//! | In the optimizer states, `optimizer_state_dict` | Content |
//! |---|---|
//! | `zero_stage`, `partition_count` | how the vectors are split, and the number of pieces |
//! | `single_partition_of_fp32_groups` (1, 2), `fp32_flat_groups` (3) | for each group, the rank's piece of the weights |
//! | `base_optimizer_state` (1, 2), `optimizer_state_dict` (3) | the optimizer's state, in the same pieces |
//! | `param_alignment_paddings` | unused elements between the parameters of a group |
//!
//! Stages 1 and 2 split the vector of each group into one piece per rank, and a piece can end
//! inside a parameter. Stage 3 splits each parameter into one share per rank. The size p of a share
//! is rounded up, and rank r stores the elements from r p up to (r + 1) p. The end of the last
//! share may be unused.
//!
//! The reader returns what DeepSpeed's `zero_to_fp32.py` writes: the same names in the same order,
//! floats as F32, and integer and boolean buffers unchanged.
//!
//! Sources: `deepspeed/utils/zero_to_fp32.py`, `deepspeed/runtime/engine.py`,
//! `deepspeed/runtime/zero/stage_1_and_2.py`, `stage3.py`, `deepspeed/runtime/bf16_optimizer.py`
//! and `deepspeed/checkpoint/ds_to_universal.py` in DeepSpeed 0.19.8, and files that DeepSpeed
//! wrote.
#![forbid(unsafe_code)]

mod probe;
mod read;

mod collector;
mod model_states;
mod optimizer_states;
mod output;
mod parallel;
mod rank_files;
mod ranks;
mod selected;
mod split_vector;
mod stages;
mod tags;
mod universal;
mod widened;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader,
};

#[derive(Debug, Clone, Copy, Default)]
pub struct DeepSpeed;

impl Format for DeepSpeed {
    fn describe(&self) -> Description {
        Description::new("deepspeed", "DeepSpeed ZeRO checkpoint")
            .members(["latest", "latest_universal", "*_model_states.pt", "*_optim_states.pt"])
            .capabilities(Capabilities::READ)
            .options(read::options())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader::new(options)?))
    }
}

/// Returns the formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(DeepSpeed)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
