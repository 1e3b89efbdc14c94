//! The formats that there are, where they come from, and which of them an input is.

pub mod library;
pub mod probe;
pub mod registry;
pub mod search;
pub mod used;
