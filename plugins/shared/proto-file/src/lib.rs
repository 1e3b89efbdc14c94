//! Helpers for graphs in files, for the plugins of TensorFlow and ONNX: [`Wire`] reads protobuf
//! messages of any length directly from the file, and [`Names`] gives unique names to unnamed parts
//! of a graph.
#![forbid(unsafe_code)]

mod names;
mod wire;

pub use names::Names;
pub use wire::{Field, Value, Wire};
