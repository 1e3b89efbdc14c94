//! What the tests take from the host's own crates: the only module that names them.

pub use tensorferry::engine::context::fault::{RUN_STAGES, STAGES};
pub use tensorferry::engine::receipt;
pub use tensorferry_check::SCRIPT as CHECK;
pub use tensorferry_run::report::{self, JobState, JobSummary, Summary, Totals};
