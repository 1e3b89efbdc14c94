//! Reads Megatron checkpoints in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod grids;
mod hostile;
mod written;
