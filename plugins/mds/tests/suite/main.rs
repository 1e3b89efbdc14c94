//! MDS datasets that are written and read in memory, and datasets from the `mosaicml-streaming`
//! library.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod hostile;
mod write;
