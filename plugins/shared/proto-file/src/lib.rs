//! Graphs in files, for the plugins of TensorFlow and ONNX: protobuf messages that may be as long as their
//! file, walked where they lie ([`Wire`]), and names for what a graph does not name, each given once ([`Names`]).
#![forbid(unsafe_code)]

mod names;
mod wire;

pub use names::Names;
pub use wire::{Field, Value, Wire};
