//! Tests the format through the interface that hosts use.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod hostile;
mod one_pass;
mod reference;
mod round_trip;
mod splits;
