//! Writes and reads PyTorch checkpoints in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod classes;
mod common;
mod conformance;
mod containers;
mod fixtures;
mod hostile;
mod probe;
mod shards;
mod values;
mod values_hostile;
