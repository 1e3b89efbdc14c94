//! A step converts a catalog to a new catalog. For example, it selects, renames, transposes, splits
//! or joins tensors.
//!
//! Steps do not move data. A tensor consists of blocks that refer to storages, so a step only
//! changes the positions from which the elements are read. A chain of ten steps therefore needs
//! only one pass over the data. A [`Spec`](spec::Spec) is a step as written by the user, and a
//! [`Signature`](signature::Signature) describes the argument and keys of a step. This folder
//! contains one file per step.
//!
//! The result of a step depends only on the catalog and the model's files. A step also updates the
//! tree of non-tensor state, which refers to the tensors: see [`tree`].
//!
//! A tensor keeps its attributes if a step does not change its dimensions. Steps that change
//! dimensions (transpose, permute, reshape, split, unstack, concat, stack) drop the attributes and
//! report a loss. The reason is that an attribute may contain a value for each axis, such as the
//! spacing along that axis.

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
