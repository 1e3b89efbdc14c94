//! Tests of GGUF files and splits that are written and read in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod dequantize;
mod fixtures;
mod hostile;
mod reported;
mod round_trip;
