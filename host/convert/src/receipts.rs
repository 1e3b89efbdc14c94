//! Drafts receipts while an output is staged, and verifies outputs against them later.

pub mod draft;
pub mod draft_tensors;
pub mod verify;
