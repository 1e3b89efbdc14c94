//! The runner does the jobs of a manifest: each in a process of its own, under one budget, with a
//! journal, so that what is done stays done whatever is killed.
//!
//! ```text
//! jobs --schemas of data sets--> jobs --decide--> those that must run --pool--> a process each --ready--> journal --commit--> Summary
//! ```
//!
//! A job's process stages its output and then asks. The runner writes into the journal what is about
//! to become visible, syncs it, and says yes. Whoever comes later compares that record with what
//! stands: it was committed, or it was not. So nothing has to be done twice, and the record that says
//! "done" is only a shortcut.

pub mod exit;
pub mod human;
pub mod manifest;

pub mod decide;
pub mod dry_run;
pub mod event;
pub mod job;
pub mod journal;
pub mod report;
pub mod report_html;
pub mod shard;
pub mod summary;

mod budget;
mod found;
mod lock;
mod offspring;
mod pool;
mod protocol;
mod run;
mod scan;
mod schemas;
mod worker;

pub use budget::Budget;
pub use offspring::Launch;
pub use run::{Ended, Options, in_one_line, run};
pub use worker::work;
