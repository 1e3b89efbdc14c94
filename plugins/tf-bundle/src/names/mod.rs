//! A name is what the user calls a tensor; a key is what the checkpoint calls it.
//!
//! A checkpoint of TensorFlow 1 has keys that are names. One of TensorFlow 2 has keys that are paths
//! through the objects of a program, and an object graph that says which variable each belongs to:
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
