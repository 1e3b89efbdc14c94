//! Sets of MDS, written and read in memory, and files that the library wrote.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod hostile;
mod write;
