//! Rules for the parts of a Megatron model, for the plugins `megatron` and `deepspeed`. The files
//! do not describe which part of a parameter a rank has; it follows from the parameter's name.
//!
//! | File | Contents |
//! |---|---|
//! | `names.rs` | numbers of layers and experts in names, the pipeline stage of a parameter |
//! | `placement.rs` | [`Placement`]: how the parts of a parameter form the whole |
//! | `join.rs` | [`JoinRule`]: the parts as blocks of one tensor, and the regions of a tensor that are a part |
//! | `same_bytes.rs` | whether copies have the same bytes |
//! | `grid.rs` | the ranks and their folders |
//! | `split.rs` | [`Part`]: the parts that each rank has of a whole model |
//! | `dist_names.rs` | names in a `torch_dist` checkpoint, in both directions |
//!
//! Sources: `megatron/core/tensor_parallel` and `megatron/core/transformer` of megatron-core
//! 0.16.1, and for the old names `megatron/model` of Megatron-LM 23 and of Megatron-DeepSpeed.
#![forbid(unsafe_code)]

mod dist_names;
mod grid;
mod join;
mod names;
mod placement;
mod same;
mod split;

pub use dist_names::{DistName, dist_name, extra_states, halves, is_extra_state, slice_name, stacked_dims};
pub use grid::{GridSize, Rank};
pub use join::{JoinRule, JoinedCatalog, describe_location};
pub use names::{StageOf, expert, is_before_core, is_counted, numbered, stage_of};
pub use placement::{Placement, fused, is_embedding, is_gated, is_output, placement, second_of_mlp};
pub use same::same_bytes;
pub use split::{ModelFacts, OLD_NAME, Part, split};
