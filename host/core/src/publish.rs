//! Staged files become an output: named, locked, renamed into place, and finished after a crash.

mod beneath;
pub mod commit;
pub mod disk;
pub mod stage;
pub mod stale;
