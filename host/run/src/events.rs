//! Events are what a run reports as it goes: the lines of `--json`, and what progress is drawn from.

use crate::report::{Failure, JobSummary, Totals};
use serde::Serialize;
use std::path::PathBuf;

/// Something that happened in a run. `name` is a job's.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are described by their variant")]
pub enum Event<'a> {
    /// A run begins: how many jobs were asked for, how many must run, and about how many bytes these read.
    RunBegan { jobs: usize, to_run: usize, bytes: u64, journal: PathBuf },
    /// A file group was scanned for its data set's schema: the `scanned`-th of those that have to be.
    Scanned { name: &'a str, scanned: usize, of: usize },
    /// Why a job runs, or does not: with `--explain`.
    Decided { name: &'a str, runs: bool, reason: &'a str },
    /// A job begins, or is tried again; attempts count from 1.
    JobBegan { name: &'a str, attempt: u32 },
    /// How many bytes of its input a job has gone through before it can copy, of how many: an index, a schema.
    JobReads { name: &'a str, bytes: u64, of: u64 },
    /// How many bytes a job will copy.
    JobBytes { name: &'a str, bytes: u64 },
    /// How many bytes it has copied.
    JobMoved { name: &'a str, bytes: u64 },
    /// A job is done.
    JobDone(&'a JobSummary),
    /// A job met a passing fault and is tried again in so many seconds.
    JobWaits { name: &'a str, seconds: f64, failure: &'a Failure },
    /// A job failed for good.
    JobFailed(&'a JobSummary),
    /// A job was stopped before it was done.
    JobCancelled { name: &'a str },
    /// A piece of a plan begins, as [`RunBegan`](Self::RunBegan).
    PieceBegan { piece: u64, jobs: usize, to_run: usize, bytes: u64 },
    /// How many of its jobs have ended, and how many bytes these and the running ones have copied.
    PieceMoved { piece: u64, jobs: usize, bytes: u64 },
    /// A piece ends; of those that failed the first.
    PieceDone {
        piece: u64,
        jobs: usize,
        #[serde(flatten)]
        totals: &'a Totals,
        seconds: f64,
        exit_code: u8,
        failures: Vec<PieceFailure<'a>>,
    },
    /// A piece could not be begun, or its journal not be written.
    PieceFailed { piece: u64, message: &'a str, exit_code: u8 },
    /// A run ends, after so many seconds.
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
    /// The job's name.
    pub name: &'a str,
    /// OUTPUT.
    pub output: &'a str,
    /// Why.
    pub message: String,
    /// The exit code that `ferry convert` would have had.
    pub exit_code: Option<i32>,
    /// Whether it may succeed if it is tried again.
    pub passing: bool,
}

/// Receives the events of a run, from many threads.
pub trait EventListener: Sync {
    /// Something has happened.
    fn on_event(&self, event: &Event<'_>);
}

/// For those who want no events.
impl EventListener for () {
    fn on_event(&self, _: &Event<'_>) {}
}
