//! Reads DeepSpeed checkpoints in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod parallel;
mod stages;
