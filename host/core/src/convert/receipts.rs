//! Receipts are drafted while an output is staged, and outputs are verified against them later.

pub mod draft;
#[cfg(feature = "records")]
pub mod draft_records;
pub mod draft_tensors;
pub mod verify;
#[cfg(feature = "records")]
mod verify_records;
