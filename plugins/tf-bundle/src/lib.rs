//! TensorFlow's checkpoints, saved models and frozen graphs.
#![forbid(unsafe_code)]

mod dtype;
mod graph_def;
mod message_kind;
mod saved_model_probe;
mod tensor_proto;
mod text;
mod wire;
