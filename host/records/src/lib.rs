//! A layer of `tensorferry`, whose API has no stability guarantee.
//!
//! Records are the rows of datasets, in Arrow batches. Records are converted in the same stages as
//! tensors:
//!
//! ```text
//! input --open--> Rows --steps--> Flow --plan--> files --write--> staged files --verify--> commit --> Report
//! ```
//!
//! A [`Flow`](flow::Flow) is a sequence of batches that the writer pulls. Readers run ahead of the
//! writer, and encoders run behind it. The memory budget limits the number of batches between
//! readers and encoders.

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
pub mod index;
pub mod lines;
pub mod lists;
pub mod metadata_losses;
mod nested;
pub mod number_text;
pub mod plain;
mod progress;
pub mod rows;
pub mod schema_file;
pub mod steps;
pub mod survey;
pub mod write;
mod zones;
