//! What the tests take from the host's own crates: the only module that names them.

pub use tensorferry_host::fault::{RUN_STAGES, STAGES};
pub use tensorferry_host::receipt;
pub use tensorferry_host::runner::report;
pub use tensorferry_host::runner::summary::{JobSummary, State, Summary, Totals};
