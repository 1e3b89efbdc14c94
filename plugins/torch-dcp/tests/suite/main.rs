//! Reads torch's distributed checkpoints in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod chunks;
mod common;
mod conformance;
mod fixtures;
mod shards;
