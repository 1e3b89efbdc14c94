//! A name identifies a tensor for the user, and a key identifies the tensor in the checkpoint.
//!
//! In a TensorFlow 1 checkpoint, the keys are the names. In a TensorFlow 2 checkpoint, the keys are
//! paths through the objects of a program, and an object graph maps the keys to variables. For
//! example, `optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE` is the key of
//! `sequential/dense/kernel`.

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
