//! Rules for splitting and joining the parts of a Megatron model, for the plugins `megatron` and
//! `deepspeed`. The files do not state which part of a parameter a rank contains, so the rules are
//! derived from the name of the parameter.
//!
//! | File | Contents |
//! |---|---|
//! | `names.rs` | the layer and expert numbers in a name, and the pipeline stage of a parameter |
//! | `placement.rs` | [`Placement`]: how the parts of a parameter form the whole |
//! | `join.rs` | [`JoinRule`]: joins parts as blocks of a tensor, and finds the regions of a part |
//! | `compare.rs` | checks whether copies have the same bytes |
//! | `grid.rs` | the ranks and their folders |
//! | `split.rs` | [`Part`]: the parts of a whole model that are assigned to each rank |
//! | `dist_names.rs` | names in a `torch_dist` checkpoint, in both directions |
//!
//! Sources: `megatron/core/tensor_parallel` and `megatron/core/transformer` in megatron-core
//! 0.16.1. The source for the old names is `megatron/model` in Megatron-LM 23 and in
//! Megatron-DeepSpeed.
#![forbid(unsafe_code)]

mod compare;
mod dist_names;
mod grid;
mod join;
mod names;
mod placement;
mod split;

pub use compare::same_bytes;
pub use dist_names::{DistName, dist_name, extra_states, halves, is_extra_state, slice_name, stacked_dims};
pub use grid::{GridSize, Rank};
pub use join::{JoinRule, JoinedCatalog, describe_location};
pub use names::{StageOf, expert, is_before_core, is_counted, numbered, stage_of};
pub use placement::{Placement, fused, is_embedding, is_gated, is_output, placement, second_of_mlp};
pub use split::{ModelFacts, OLD_NAME, Part, split};
