//! The events of a run. `--json` prints them as lines, and the progress display is based on them.

use crate::report::{JobFailure, JobSummary, Totals};
use serde::Serialize;
use std::path::PathBuf;

/// An event in a run. In all variants, `name` is the name of a job.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event<'a> {
    /// A run begins. Contains the number of selected jobs, the number that must run, and their
    /// approximate input size.
    RunBegan {
        jobs: usize,
        to_run: usize,
        bytes: u64,
        journal: PathBuf,
    },
    /// A file group was scanned to determine its dataset's schema. `scanned` is the number of
    /// finished scans, and `of` is the total number.
    Scanned {
        name: &'a str,
        scanned: usize,
        of: usize,
    },
    /// The reason why a job runs or does not run, for `--explain`.
    Decided {
        name: &'a str,
        runs: bool,
        reason: &'a str,
    },
    /// A job begins or is retried. Attempts count from 1.
    JobBegan {
        name: &'a str,
        attempt: u32,
    },
    /// A job scans its input for an index or a schema before it can copy data. Contains the number
    /// of bytes scanned so far, and the total number.
    JobReads {
        name: &'a str,
        bytes: u64,
        of: u64,
    },
    /// The number of bytes that a job will copy.
    JobBytes {
        name: &'a str,
        bytes: u64,
    },
    /// The number of bytes that a job has copied.
    JobMoved {
        name: &'a str,
        bytes: u64,
    },
    JobDone(&'a JobSummary),
    /// A job had a temporary failure and is retried after this many seconds.
    JobWaits {
        name: &'a str,
        seconds: f64,
        failure: &'a JobFailure,
    },
    /// A job failed permanently.
    JobFailed(&'a JobSummary),
    /// A job was stopped before it was finished.
    JobCancelled {
        name: &'a str,
    },
    /// A piece of a plan begins. Contains the same numbers as [`RunBegan`](Self::RunBegan).
    PieceBegan {
        piece: u64,
        jobs: usize,
        to_run: usize,
        bytes: u64,
    },
    /// Progress of a piece: the number of finished jobs, and the bytes copied by finished and
    /// running jobs.
    PieceMoved {
        piece: u64,
        jobs: usize,
        bytes: u64,
    },
    /// A piece ends. Contains its first failures.
    PieceDone {
        piece: u64,
        jobs: usize,
        #[serde(flatten)]
        totals: &'a Totals,
        seconds: f64,
        exit_code: u8,
        failures: Vec<PieceFailure<'a>>,
    },
    /// A piece could not be started, or its journal could not be written.
    PieceFailed {
        piece: u64,
        message: &'a str,
        exit_code: u8,
    },
    /// A run ends. Contains the duration of the run in seconds.
    RunEnded {
        #[serde(flatten)]
        totals: &'a Totals,
        interrupted: bool,
        seconds: f64,
    },
}

/// A job of a piece that failed.
#[derive(Debug, Serialize)]
pub struct PieceFailure<'a> {
    pub name: &'a str,
    pub output: &'a str,
    pub message: String,
    /// The exit code that `ferry convert` would return.
    pub exit_code: Option<i32>,
    /// Whether a retry of the job may succeed.
    pub passing: bool,
}

/// Receives the events of a run, from many threads.
pub trait EventListener: Sync {
    fn on_event(&self, event: &Event<'_>);
}

/// Ignores all events.
impl EventListener for () {
    fn on_event(&self, _: &Event<'_>) {}
}
