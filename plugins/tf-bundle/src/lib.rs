//! TensorFlow's checkpoints, saved models and frozen graphs.
#![forbid(unsafe_code)]

mod checksum;
mod dtype;
mod readable;
mod slice_key;
mod table;
mod varint;
