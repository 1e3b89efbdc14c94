//! Writes and reads NumPy files in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod options;
mod written;
