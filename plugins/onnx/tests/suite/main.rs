//! Tests that read and write ONNX models in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod hostile;
mod written;
