//! TensorFlow's checkpoints, saved models and frozen graphs.
#![forbid(unsafe_code)]

mod dtype;
mod names;
