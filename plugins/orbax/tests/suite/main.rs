//! Tests that write and read Orbax checkpoints in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod aggregate;
mod conformance;
mod fixtures;
mod hostile;
mod written;
