//! Helpers for all tests that use ferry from the outside. They provide the program as built by
//! `cargo build`, the fixtures, the real frameworks, and generated inputs.
//!
//! If a test cannot continue, the helpers panic with the reason. They do not skip anything
//! silently.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

pub mod bundle;
pub mod calls;
pub mod dataset;
pub mod disk;
pub mod ferry;
pub mod files;
pub mod fixtures;
pub mod fuzz;
pub mod fuzz_records;
pub mod guide;
pub mod host;
pub mod json;
pub mod layers;
pub mod measure;
pub mod model;
pub mod mutate;
pub mod picture;
pub mod python;
pub mod records;
pub mod rows;
pub mod rust;
pub mod seen;
pub mod session;
pub mod sets;
pub mod settings;
pub mod shape;
pub mod table;
pub mod tfrecords;
pub mod wire;
pub mod workspace;
pub mod zip;
pub mod zoo;

pub use ferry::{Ferry, Outcome};
