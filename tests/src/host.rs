//! What the tests take from the host's own crates: the only module that names them.

pub use tensorferry::engine::context::fault::{RUN_STAGES, STAGES};
pub use tensorferry::engine::receipt;
pub use tensorferry_run::report;
pub use tensorferry_run::summary::{JobSummary, State, Summary, Totals};
