//! Conversions that read or write records: this crate's functions that `tensorferry-convert` calls.

pub mod compare;
pub mod convert;
pub mod divide;
pub mod draft;
pub mod input;
pub mod of_tensors;
pub mod output;
pub mod saved;
mod steps;
pub mod support;
pub mod to_tensors;
pub mod verify;

pub use steps::{Records, check_row_wise, on_records};
