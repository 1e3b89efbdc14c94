//! MDS datasets written and read in memory, and files written by the library.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod hostile;
mod write;
