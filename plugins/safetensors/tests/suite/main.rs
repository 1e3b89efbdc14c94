//! Writes and reads safetensors files and sets of shards in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod hostile;
mod library;
mod sets;
