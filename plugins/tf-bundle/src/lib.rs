//! TensorFlow's checkpoints, saved models and frozen graphs.
#![forbid(unsafe_code)]

mod bundle;
mod checksum;
mod dtype;
mod graph_def;
mod locate;
mod message_kind;
mod names;
mod probe;
mod read;
mod readable;
mod saved_model_probe;
mod slice_key;
mod state_file;
mod table;
mod tensor_proto;
mod text;
mod v1;
mod varint;
mod wire;
