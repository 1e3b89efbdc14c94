//! A layer of `tensorferry`. Its API has no stability promise.
//!
//! This layer turns staged files into an output. The layer locks the stage, renames the files into
//! place, and finishes interrupted commits after a crash. In an object store, this layer uploads
//! and completes objects instead.

#![forbid(unsafe_code)]

pub mod beneath;
pub mod commit;
pub mod disk;
pub mod open_files;
pub mod output_bytes;
mod platform;
pub mod remote;
pub mod stage;
pub mod staging;
pub mod stale;
