//! A layer of `tensorferry`, which uses it; its API promises nothing.
//!
//! Records are the rows of data sets, held in Arrow batches as tensors are held in bytes. They are converted
//! in the same order:
//!
//! ```text
//! input --open--> Rows --steps--> Flow --plan--> files --write--> staged files --verify--> commit --> Report
//! ```
//!
//! A [`Flow`](flow::Flow) is a sequence of batches, pulled: readers run ahead of it and encoders behind it,
//! each by as much as the memory's budget lets them.

#![forbid(unsafe_code)]

pub mod batch_bytes;
pub mod bridge;
pub mod cast;
pub mod cells;
pub mod checksum;
pub mod conversion;
pub mod diff;
pub mod digest;
pub mod encoding;
pub mod flow;
pub mod held;
pub mod index;
pub mod lines;
pub mod lists;
mod nested;
pub mod plain;
mod progress;
pub mod rows;
pub mod schema_file;
pub mod shown;
pub mod steps;
pub mod survey;
pub mod write;
mod zones;
