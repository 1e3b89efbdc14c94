//! A layer of `tensorferry`; its API makes no stability promises.
//!
//! Turns staged files into an output: names, locks and renames them into place, and finishes the
//! work after a crash. In a store, sends and completes objects instead.

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
