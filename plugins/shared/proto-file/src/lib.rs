//! Helpers for reading graphs, for the TensorFlow and ONNX plugins. [`Wire`] reads protobuf
//! messages of any length directly from the file. [`Names`] assigns unique names to the parts of a
//! graph.
#![forbid(unsafe_code)]

mod names;
mod wire;

pub use names::Names;
pub use wire::{Field, Value, Wire};
