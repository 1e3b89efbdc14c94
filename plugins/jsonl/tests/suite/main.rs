//! Tests of JSON lines files that are written and read in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod guess;
mod read;
mod write;
