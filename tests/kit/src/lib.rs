//! Helpers for the tests of several plugins: fixtures, files built byte by byte, and formats that
//! run in memory.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

pub mod fixtures;
pub mod ocdbt;
pub mod pickle;
pub mod random;
pub mod rows;
pub mod tar;
pub mod tensors;
pub mod zip;

use std::collections::BTreeMap;

/// The files of an input, by name.
pub type Files = BTreeMap<String, Vec<u8>>;
