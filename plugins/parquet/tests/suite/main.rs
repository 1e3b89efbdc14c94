//! Tests that write and read Parquet files in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod by_hand;
mod common;
mod conformance;
mod dense;
mod hostile;
mod other_writers;
mod pruning;
mod round_trip;
