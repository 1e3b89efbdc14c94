//! Receipts are drafted while an output is staged, and outputs are verified against them later.

pub mod draft;
pub mod draft_tensors;
pub mod verify;
