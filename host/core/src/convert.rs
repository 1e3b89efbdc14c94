//! Conversions, from what the user typed to a report.

pub mod inspect;
pub mod models;
pub mod receipts;
pub mod records;
pub mod report;
pub mod sidecars;
pub mod sides;
pub mod tensors;
pub mod tensors_to_records;
pub mod watch;
pub mod weights;

pub use tensors::{Request, convert};
