//! Receipts of conversions: drafted while the sources are open and the output is staged, and held against
//! an output later.

pub mod draft;
pub mod draft_records;
pub mod verify;
pub mod verify_records;
