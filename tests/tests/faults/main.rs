//! Tests that take minutes or need more than a writable folder, such as tests with killed
//! processes, full disks and files of several gigabytes.
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
