//! Events are what a run tells as it goes: the lines of `--json`, and what progress is drawn from.

use super::summary::{Failure, JobSummary, Totals};
use serde::Serialize;
use std::path::PathBuf;

/// Something has happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event<'a> {
    /// A run begins.
    RunBegan {
        /// Jobs that it was asked for.
        jobs: usize,
        /// Those of them that must run.
        to_run: usize,
        /// Bytes of their inputs, as far as that can be told.
        bytes: u64,
        /// Its journal.
        journal: PathBuf,
    },
    /// A unit of a data set was looked at, for the data set's schema.
    Scanned {
        /// Which.
        #[serde(rename = "name")]
        job: &'a str,
        /// How many of those that had to be looked at have been.
        scanned: usize,
        /// All of those.
        of: usize,
    },
    /// Why a job runs, or does not: with `--explain`.
    Decided {
        /// Which.
        #[serde(rename = "name")]
        job: &'a str,
        /// Whether it runs.
        runs: bool,
        /// Why.
        reason: &'a str,
    },
    /// A job begins, or is tried again.
    JobBegan {
        /// Which.
        #[serde(rename = "name")]
        job: &'a str,
        /// From 1.
        attempt: u32,
    },
    /// How many bytes a job will copy.
    JobBytes {
        /// Which.
        #[serde(rename = "name")]
        job: &'a str,
        /// So many.
        bytes: u64,
    },
    /// How many bytes it has copied.
    JobMoved {
        /// Which.
        #[serde(rename = "name")]
        job: &'a str,
        /// So many.
        bytes: u64,
    },
    /// A job is done.
    JobDone {
        /// What it came to.
        #[serde(flatten)]
        job: &'a JobSummary,
    },
    /// A job met a passing fault and is tried again.
    JobWaits {
        /// Which.
        #[serde(rename = "name")]
        job: &'a str,
        /// When.
        seconds: f64,
        /// Why.
        failure: &'a Failure,
    },
    /// A job failed for good.
    JobFailed {
        /// What it came to.
        #[serde(flatten)]
        job: &'a JobSummary,
    },
    /// A job was stopped before it was done.
    JobCancelled {
        /// Which.
        #[serde(rename = "name")]
        job: &'a str,
    },
    /// A run ends.
    RunEnded {
        /// Sums over the jobs.
        #[serde(flatten)]
        totals: &'a Totals,
        /// Whether the user ended it.
        interrupted: bool,
        /// From its begin.
        seconds: f64,
    },
}

/// Who is told. Called from many threads.
pub trait Listener: Sync {
    /// Something has happened.
    fn hear(&self, event: &Event<'_>);
}
