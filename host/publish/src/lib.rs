//! A layer of `tensorferry`, which uses it; its API promises nothing.
//!
//! Staged files become an output: named, locked, renamed into place, and finished after a crash;
//! or objects of a store, sent and completed.

#![forbid(unsafe_code)]

pub mod beneath;
pub mod commit;
pub mod disk;
pub mod open_files;
pub mod output_bytes;
pub mod remote;
pub mod stage;
pub mod staging;
pub mod stale;
