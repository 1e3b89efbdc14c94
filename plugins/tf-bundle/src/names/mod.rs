//! A name identifies a tensor for the user, and a key identifies it in the checkpoint.
//!
//! The keys of a TensorFlow 1 checkpoint are names. The keys of a TensorFlow 2 checkpoint are paths
//! through the objects of a program, and an object graph maps them to variables:
//! `optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE` is `sequential/dense/kernel`.

pub(crate) mod key_map;
pub(crate) mod key_text;
pub(crate) mod listed;
pub(crate) mod naming;
pub(crate) mod object_graph;
mod optimizer;
mod ordinal;
pub(crate) mod path;
pub(crate) mod rebuild;
pub(crate) mod resolve;
mod walk;
