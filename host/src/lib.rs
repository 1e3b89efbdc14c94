//! The `ferry` program as a library: everything but the command line.
//!
//! [`convert`](convert::convert) is the way of the data, one call for each step.
#![deny(unsafe_code)]

pub mod content;
pub mod fault;
pub mod gather;
pub mod input;
pub mod logical;
pub mod pieces;
pub mod plugins;
pub mod probe;
pub mod run;
pub mod source;
pub mod stored;
