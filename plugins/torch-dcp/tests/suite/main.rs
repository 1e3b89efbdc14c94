//! Tests for torch's distributed checkpoints. All tests run in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod chunks;
mod common;
mod conformance;
mod fixtures;
mod shards;
