//! Writes and reads Flax files in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod fixtures;
mod hostile;
mod written;
