//! The result of a run, as stored in `report.json`. `report.html` is rendered from the same data.
//!
//! All paths are absolute. Bytes in a path that are not valid UTF-8 are replaced. Programs that
//! read the document ignore unknown fields. [`VERSION`] changes when the meaning of a field
//! changes.

use crate::exit::{ENVIRONMENT, REFUSED, TRANSIENT, exit_code};
use crate::hint::hint;
use serde::{Deserialize, Serialize};
use std::fmt;
use tensorferry::LossRecord;
use tensorferry::inspect::AccountRecord;
use tensorferry_sdk::{Error, ErrorKind};

/// Version of the format of `report.json`.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub report: u32,
    /// The version of the program.
    pub ferry: String,
    pub manifest: String,
    /// The start of the run in UTC, in the format of RFC 3339: `2026-11-21T17:20:00Z`.
    pub started: String,
    /// The duration of the run in seconds.
    pub seconds: f64,
    /// Whether the user interrupted the run.
    pub interrupted: bool,
    /// Sums over the jobs.
    pub totals: Totals,
    /// The resources that the jobs shared.
    pub budget: BudgetSummary,
    /// All jobs, in the manifest's order.
    pub jobs: Vec<JobSummary>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Jobs that this run completed.
    pub done: u64,
    /// Jobs that an earlier run completed and that are still up to date.
    pub unchanged: u64,
    /// Jobs that failed permanently.
    pub failed: u64,
    /// Jobs that were stopped or not started when the run ended early.
    pub cancelled: u64,
    /// Jobs that this run did not select.
    pub left_out: u64,
    /// Total input size, in bytes, of the jobs that this run completed.
    pub bytes_in: u64,
    /// Total output size, in bytes, of the jobs that this run completed.
    pub bytes_out: u64,
    /// Number of tensors that the completed jobs wrote.
    pub tensors: u64,
    pub records: u64,
    /// Number of losses that the completed jobs reported.
    pub losses: u64,
}

/// The resources that the jobs of a run shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetSummary {
    /// Maximum number of concurrent jobs.
    pub jobs: u64,
    /// Maximum number of concurrent jobs if all jobs are small.
    pub small_jobs: u64,
    /// Total number of threads of all jobs.
    pub threads: u64,
    /// Total size in bytes of the buffers of all jobs.
    pub memory: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSummary {
    /// The job's name in the manifest. For a model of a zoo or a group of a dataset, the name that
    /// ferry gave it.
    pub name: String,
    /// The path or URL of the input.
    pub input: String,
    /// The path or URL of the output.
    pub output: String,
    /// The input's format, if the format is known.
    pub from: Option<String>,
    pub to: Option<String>,
    pub state: JobState,
    /// The reason why the job ran or did not run.
    pub reason: Option<String>,
    /// The reason why the job failed, and a hint.
    pub failure: Option<JobFailure>,
    /// Number of attempts to run the job.
    pub attempts: u32,
    /// Seconds from the start of the run to the start of the job's first attempt. `None` if the job
    /// was not started.
    pub started: Option<f64>,
    /// Seconds from the start of the first attempt to the end of the job, including the waits
    /// between attempts.
    pub seconds: f64,
    /// Size of the input's files.
    pub bytes_in: u64,
    /// Size of the output's files.
    pub bytes_out: u64,
    pub tensors: Option<u64>,
    pub records: Option<u64>,
    /// The outcome for each entry of the input, if the input is a folder, a glob or a set.
    pub account: Option<AccountRecord>,
    pub losses: Vec<LossRecord<'static>>,
    pub notes: Vec<String>,
    /// If `verify` is set, the number of tensors or records that were read back and compared before
    /// the commit.
    pub verified: Option<u64>,
    /// The path of the output's receipt.
    pub receipt: Option<String>,
}

/// The result of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// This run completed the job.
    Done,
    /// An earlier run completed the job, and its output is up to date.
    Unchanged,
    /// The job failed permanently.
    Failed,
    /// The job was stopped, or not started, because the run ended early.
    #[default]
    Cancelled,
    /// This run did not select the job (`--only`, `--shard`).
    LeftOut,
}

impl JobState {
    /// All states. The states that need the user's attention are first.
    pub const ALL: [Self; 5] = [Self::Failed, Self::Cancelled, Self::Done, Self::Unchanged, Self::LeftOut];

    /// Returns the state's name as shown to people.
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

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFailure {
    /// The exit code of the job's process, as documented for the program. `None` if a signal ended
    /// the process.
    pub exit_code: Option<i32>,
    /// The signal that ended the job's process.
    pub signal: Option<i32>,
    /// The kind of the failure: `malformed`, `io`, `crashed`, `timed out`, …
    pub kind: String,
    pub message: String,
    /// The location and details of the failure, as names and values: `file`, `tensor`, `offset`,
    /// `expected`, `found`.
    pub details: Vec<(String, String)>,
    /// How to fix the problem, if retrying does not help.
    pub hint: Option<Box<str>>,
    /// The command that retries the job.
    pub retry: Option<Box<str>>,
}

impl fmt::Display for JobFailure {
    /// Formats the failure as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = ErrorKind::ALL.into_iter().find(|kind| kind.word() == self.kind);
        let label = kind.map_or_else(|| format!("{}: ", self.kind), |kind| kind.label().to_owned());
        let details: Vec<String> = self.details.iter().map(|(name, text)| format!("{name} {text}")).collect();
        let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
        f.write_str(&format!("{label}{}{details}", self.message).replace('\n', " "))
    }
}

impl JobFailure {
    /// Returns whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        self.exit_code == Some(i32::from(TRANSIENT))
    }

    /// Returns whether the system is the cause of the failure.
    pub(crate) fn is_of_environment(&self) -> bool {
        self.exit_code == Some(i32::from(ENVIRONMENT))
    }

    /// Returns whether the input is the cause of the failure.
    pub(crate) fn is_refusal(&self) -> bool {
        self.exit_code == Some(i32::from(REFUSED))
    }

    /// Converts an error to a failure with its exit code.
    pub(crate) fn of(error: &Error) -> Self {
        Self {
            exit_code: Some(i32::from(exit_code(error.kind()))),
            kind: ErrorKind::word(error.kind()).to_owned(),
            message: error.message().to_owned(),
            details: error
                .details()
                .filter(|(name, _)| *name != "hint")
                .map(|(name, text)| (name.to_owned(), text))
                .collect(),
            hint: hint(error).map(Box::from),
            ..Self::default()
        }
    }
}

impl Totals {
    /// Returns the totals of these jobs.
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

    /// Adds the totals of other jobs.
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

    /// Returns the number of jobs in a state.
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
