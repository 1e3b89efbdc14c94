//! Tests of MDS datasets that are written and read in memory, and of datasets that the
//! `mosaicml-streaming` library wrote.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod hostile;
mod write;
