//! Orbax checkpoints, written and read in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod aggregate;
mod common;
mod conformance;
mod fixtures;
mod hostile;
mod ocdbt_bytes;
mod written;
