//! A summary is the result of a run: the document `report.json`, from which `report.html` is drawn.
//!
//! Paths are absolute, and shown as text: what is not UTF-8 in them is replaced. Readers ignore
//! fields that they do not know; [`VERSION`] changes when a field changes its meaning.

use crate::exit::{ENVIRONMENT, REFUSED, TRANSIENT, exit_code};
use crate::hint::hint;
use serde::{Deserialize, Serialize};
use std::fmt;
use tensorferry::LossRecord;
use tensorferry::inspect::AccountRecord;
use tensorferry_sdk::{Error, ErrorKind};

/// The layout of the document.
pub const VERSION: u32 = 1;

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// [`VERSION`].
    pub report: u32,
    /// The version of the program.
    pub ferry: String,
    /// The manifest's path.
    pub manifest: String,
    /// When the run began, UTC, as RFC 3339 has it: `2026-11-21T17:20:00Z`.
    pub started: String,
    /// From its begin to its end.
    pub seconds: f64,
    /// Whether the user ended it before its end.
    pub interrupted: bool,
    /// Sums over the jobs.
    pub totals: Totals,
    /// What the jobs shared.
    pub budget: BudgetSummary,
    /// Every job, in the manifest's order.
    pub jobs: Vec<JobSummary>,
}

/// Sums over the jobs of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Jobs that this run did.
    pub done: u64,
    /// Jobs that an earlier run did, and for which nothing has changed since.
    pub unchanged: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// Jobs that were stopped or not begun when the run ended early.
    pub cancelled: u64,
    /// Jobs that this run was not asked for.
    pub left_out: u64,
    /// Bytes of the inputs of the jobs that this run did.
    pub bytes_in: u64,
    /// Bytes of their outputs.
    pub bytes_out: u64,
    /// Tensors that they wrote.
    pub tensors: u64,
    /// Records that they wrote.
    pub records: u64,
    /// What could not be carried.
    pub losses: u64,
}

/// What the jobs of a run shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetSummary {
    /// Jobs at the same time, at most.
    pub jobs: u64,
    /// The same, where all of them are small.
    pub small_jobs: u64,
    /// Threads, all jobs together.
    pub threads: u64,
    /// Bytes of buffers, all jobs together.
    pub memory: u64,
}

/// The result of one job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSummary {
    /// The job's name in the manifest, or the one that a zoo's template gave it.
    pub name: String,
    /// Its INPUT.
    pub input: String,
    /// Its OUTPUT.
    pub output: String,
    /// The input's format, once it is known.
    pub from: Option<String>,
    /// The output's format.
    pub to: Option<String>,
    /// How it ended.
    pub state: JobState,
    /// Why it ran, or did not.
    pub reason: Option<String>,
    /// Why it failed, and what to do.
    pub failure: Option<Failure>,
    /// How often it was tried.
    pub attempts: u32,
    /// Seconds from the run's begin to the begin of its first attempt; none if it was not begun.
    pub started: Option<f64>,
    /// Seconds from there to its end, waits between attempts included.
    pub seconds: f64,
    /// Bytes of its input's files.
    pub bytes_in: u64,
    /// Bytes of its output's files.
    pub bytes_out: u64,
    /// Tensors in its output.
    pub tensors: Option<u64>,
    /// Records in its output.
    pub records: Option<u64>,
    /// What became of each entry of its input, where that is a folder, a glob or a set.
    pub account: Option<AccountRecord>,
    /// What could not be carried.
    pub losses: Vec<LossRecord<'static>>,
    /// What a person should know beside that.
    pub notes: Vec<String>,
    /// Tensors that were read back and compared before the commit, if that was asked for.
    pub verified: Option<u64>,
    /// Where its receipt lies.
    pub receipt: Option<String>,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// This run did it.
    Done,
    /// An earlier run did it, and nothing has changed since.
    Unchanged,
    /// It failed for good.
    Failed,
    /// It was stopped, or not begun, when the run ended early.
    #[default]
    Cancelled,
    /// This run was not asked for it: `--only`, `--shard`.
    LeftOut,
}

impl JobState {
    /// Every state, those first that a person should look at.
    pub const ALL: [Self; 5] = [Self::Failed, Self::Cancelled, Self::Done, Self::Unchanged, Self::LeftOut];

    /// The state's word, for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::LeftOut => "left out",
        }
    }
}

/// Why a job failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// The exit code of its process, as the contract fixes them; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended its process.
    pub signal: Option<i32>,
    /// Whose fault it is: `malformed`, `i/o`, `crashed`, `timed out`, ...
    pub kind: String,
    /// What is wrong.
    pub message: String,
    /// Where: name and text, as in `file`, `tensor`, `offset`, `expected`, `found`.
    pub details: Vec<(String, String)>,
    /// What to change, where trying again does not help.
    pub hint: Option<Box<str>>,
    /// The command that tries it again.
    pub retry: Option<Box<str>>,
}

impl fmt::Display for Failure {
    /// In one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details: String = self.details.iter().map(|(name, text)| format!(", {name} {text}")).collect();
        f.write_str(&format!("{}: {}{details}", self.kind, self.message).replace('\n', " "))
    }
}

impl Failure {
    /// Whether the same run may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        self.exit_code == Some(i32::from(TRANSIENT))
    }

    /// Whether the machine is at fault.
    pub(crate) fn is_of_environment(&self) -> bool {
        self.exit_code == Some(i32::from(ENVIRONMENT))
    }

    /// Whether the input is at fault.
    pub(crate) fn is_refusal(&self) -> bool {
        self.exit_code == Some(i32::from(REFUSED))
    }

    /// An error as a failure, with its exit code.
    pub(crate) fn of(error: &Error) -> Self {
        Self {
            exit_code: Some(i32::from(exit_code(error.kind()))),
            kind: ErrorKind::word(error.kind()).to_owned(),
            message: error.message().to_owned(),
            details: error.details().map(|(name, text)| (name.to_owned(), text)).collect(),
            hint: hint(error).map(Box::from),
            ..Self::default()
        }
    }
}

impl Totals {
    /// The sums over these jobs.
    #[must_use]
    pub fn of(jobs: &[JobSummary]) -> Self {
        let mut totals = Self::default();
        for job in jobs {
            let count = match job.state {
                JobState::Done => &mut totals.done,
                JobState::Unchanged => &mut totals.unchanged,
                JobState::Failed => &mut totals.failed,
                JobState::Cancelled => &mut totals.cancelled,
                JobState::LeftOut => &mut totals.left_out,
            };
            *count += 1;
            totals.losses += job.losses.len() as u64;
            if job.state == JobState::Done {
                for (sum, part) in [
                    (&mut totals.bytes_in, job.bytes_in),
                    (&mut totals.bytes_out, job.bytes_out),
                    (&mut totals.tensors, job.tensors.unwrap_or(0)),
                    (&mut totals.records, job.records.unwrap_or(0)),
                ] {
                    *sum = sum.saturating_add(part);
                }
            }
        }
        totals
    }

    /// Adds the sums over other jobs.
    pub fn add(&mut self, other: &Self) {
        for (sum, part) in [
            (&mut self.done, other.done),
            (&mut self.unchanged, other.unchanged),
            (&mut self.failed, other.failed),
            (&mut self.cancelled, other.cancelled),
            (&mut self.left_out, other.left_out),
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.bytes_out, other.bytes_out),
            (&mut self.tensors, other.tensors),
            (&mut self.records, other.records),
            (&mut self.losses, other.losses),
        ] {
            *sum = sum.saturating_add(part);
        }
    }

    /// Jobs of a state.
    #[must_use]
    pub fn count(&self, state: JobState) -> u64 {
        match state {
            JobState::Done => self.done,
            JobState::Unchanged => self.unchanged,
            JobState::Failed => self.failed,
            JobState::Cancelled => self.cancelled,
            JobState::LeftOut => self.left_out,
        }
    }
}
