//! Processes that are killed, disks that are full, files of gigabytes: what takes minutes, or asks for
//! more of the machine than a place to write to.
#![expect(clippy::unwrap_used, reason = "tests")]

mod attacks;
mod calls;
mod commit;
mod datasets;
mod disk;
mod large;
mod memory;
mod run;
mod sharing;
mod store_kills;
#[path = "../../../host/remote/tests/support/mod.rs"]
mod stores;
