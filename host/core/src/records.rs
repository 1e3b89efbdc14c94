//! Records are rows: data sets, whose payload is Arrow batches instead of tensors. They go the same way
//! as tensors do, and [`convert`](convert::convert) is that way, one call for each step.
//!
//! ```text
//! input --open--> Rows --steps--> Flow --plan--> files --write--> staged files --verify--> commit --> Report
//! ```
//!
//! A [`Flow`](flow::Flow) is a sequence of batches, pulled: readers run ahead of it and encoders behind it,
//! each by as much as the memory's budget lets them.

pub mod checksum;
pub mod diff;
pub mod digest;
pub mod encoding;
pub mod flow;
pub mod index;
pub mod lines;
pub mod rows;
pub mod schema_file;
pub mod steps;
pub mod survey;
pub mod write;
