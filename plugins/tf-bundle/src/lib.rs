//! TensorFlow's checkpoints, saved models and frozen graphs.
#![forbid(unsafe_code)]

mod bundle;
mod checksum;
mod dtype;
mod locate;
mod probe;
mod read;
mod readable;
mod slice_key;
mod table;
mod tensor_proto;
mod text;
mod varint;
mod wire;
