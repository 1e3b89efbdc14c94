//! Re-exports of everything that the tests use from the host's own crates. No other module refers
//! to these crates.

pub use tensorferry::receipts::path_for as receipt_path;
pub use tensorferry_check::SCRIPT as CHECK;
pub use tensorferry_core::context::fault::{RUN_STAGES, STAGES};
pub use tensorferry_run::report::{self, JobState, JobSummary, Summary, Totals};
