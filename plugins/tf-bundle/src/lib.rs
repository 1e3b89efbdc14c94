//! TensorFlow's checkpoints, saved models and frozen graphs.
#![forbid(unsafe_code)]

mod dtype;
mod tensor_proto;
mod text;
mod wire;
