//! A step turns a catalog into a new one: it selects, renames, transposes, splits or joins tensors.
//!
//! Steps do not move data. A tensor consists of blocks over storages, so a step only changes where
//! the elements are read from. A chain of ten steps therefore costs one pass over the data. A
//! [`Spec`](spec::Spec) is a step as written by the user, and a [`Signature`](signature::Signature)
//! describes the argument and keys of a step. Each step has its own file in this folder.
//!
//! Steps depend only on the catalog. A step also changes a tensor's place in the tree of non-tensor
//! state: see [`tree`].
//!
//! Attributes stay with their tensor. A step that changes the dimensions of a tensor (transpose,
//! permute, reshape, split, unstack, concat, stack) drops the tensor's attributes with a loss,
//! because attributes may contain a value for each axis, such as its spacing.

pub mod adapt;
pub mod cast;
pub mod concat;
pub mod dequantize;
pub mod metadata;
pub mod model_config;
mod model_facts;
pub mod pattern;
pub mod permute;
pub mod rebuild;
mod regexes;
mod regroup;
pub mod rename;
pub mod reshape;
pub mod select;
mod selector;
pub mod signature;
pub mod spec;
pub mod split;
pub mod step;
mod tensor_step;
pub mod tie;
pub mod tree;
pub mod view;

pub use model_facts::ModelFacts;
pub use step::{Step, StepKind};
pub use tensor_step::{Effects, TensorAction, apply, apply_to};

/// All kinds of steps on tensors.
pub static TENSOR_KINDS: &[StepKind<TensorAction>] = &[
    StepKind { signature: &select::SELECT, make: |spec| select::make(spec, true) },
    StepKind { signature: &select::DROP, make: |spec| select::make(spec, false) },
    StepKind { signature: &rename::RENAME, make: rename::rename },
    StepKind { signature: &dequantize::DEQUANTIZE, make: dequantize::dequantize },
    StepKind { signature: &cast::CAST, make: cast::cast },
    StepKind { signature: &permute::TRANSPOSE, make: permute::transpose },
    StepKind { signature: &permute::PERMUTE, make: permute::permute },
    StepKind { signature: &reshape::RESHAPE, make: reshape::reshape },
    StepKind { signature: &split::SPLIT, make: |spec| split::make(spec, false) },
    StepKind { signature: &concat::CONCAT, make: |spec| concat::make(spec, false) },
    StepKind { signature: &split::UNSTACK, make: |spec| split::make(spec, true) },
    StepKind { signature: &concat::STACK, make: |spec| concat::make(spec, true) },
    StepKind { signature: &tie::TIE, make: tie::tie },
    StepKind { signature: &tie::UNTIE, make: tie::untie },
    StepKind { signature: &metadata::SET_METADATA, make: metadata::set },
    StepKind { signature: &metadata::DROP_METADATA, make: metadata::drop },
];

#[cfg(test)]
mod tests;
