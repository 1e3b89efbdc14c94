//! Writes and reads Keras files in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod fixtures;
mod forms;
mod h5;
mod hostile;
mod written;
