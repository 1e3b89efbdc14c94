//! How the parts of a Megatron model belong together, for the plugins `megatron` and `deepspeed`: what ranks hold of a parameter
//! is not in their files, but follows from its name.
//!
//! | File | What it yields |
//! |---|---|
//! | `names.rs` | numbers of layers and experts in names, the stage of a pipeline that has a parameter |
//! | `placement.rs` | [`Placement`]: how the parts of a parameter belong together |
//! | `join.rs` | [`Joint`]: the parts as blocks of one tensor, and the regions of a tensor that are a part |
//! | `same.rs` | whether copies have the same bytes |
//! | `grid.rs` | the ranks, and their folders |
//! | `split.rs` | [`Part`]: what each rank has of a whole model |
//! | `dist_names.rs` | names in a `torch_dist` checkpoint, both ways |
//!
//! Source of the facts: `megatron/core/tensor_parallel` and `megatron/core/transformer` of megatron-core 0.16.1, and for the old
//! names `megatron/model` of Megatron-LM 23 and of Megatron-DeepSpeed.
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
pub use join::{Joint, Output, said};
pub use names::{StageOf, expert, is_counted, is_old, numbered, stage_of};
pub use placement::{Placement, fused, is_embedding, is_gated, is_output, placement, second_of_mlp};
pub use same::same;
pub use split::{ModelFacts, OLD_NAME, Part, split};
