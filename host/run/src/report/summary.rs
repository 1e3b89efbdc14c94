//! The result of a run: the document `report.json`, from which `report.html` is rendered.
//!
//! Paths are absolute texts; bytes that are not UTF-8 are replaced. Readers ignore unknown fields.
//! [`VERSION`] changes when a field changes its meaning.

use crate::exit::{ENVIRONMENT, REFUSED, TRANSIENT, exit_code};
use crate::hint::hint;
use serde::{Deserialize, Serialize};
use std::fmt;
use tensorferry::LossRecord;
use tensorferry::inspect::AccountRecord;
use tensorferry_sdk::{Error, ErrorKind};

/// Version of the document's layout.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub report: u32,
    /// The version of the program.
    pub ferry: String,
    pub manifest: String,
    /// The start of the run in UTC, as in RFC 3339: `2026-11-21T17:20:00Z`.
    pub started: String,
    /// The duration of the run.
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
    /// Input size of the jobs that this run completed.
    pub bytes_in: u64,
    /// Size of their outputs.
    pub bytes_out: u64,
    /// Number of tensors that they wrote.
    pub tensors: u64,
    pub records: u64,
    /// Number of losses.
    pub losses: u64,
}

/// The resources that the jobs of a run shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetSummary {
    /// Maximum number of concurrent jobs.
    pub jobs: u64,
    /// Maximum number of concurrent jobs if all of them are small.
    pub small_jobs: u64,
    /// Number of threads of all jobs together.
    pub threads: u64,
    /// Bytes of buffers of all jobs together.
    pub memory: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSummary {
    /// The job's name in the manifest, or the name that a zoo's template gave it.
    pub name: String,
    /// The path or URL of the input.
    pub input: String,
    /// The path or URL of the output.
    pub output: String,
    /// The input's format, if it is known.
    pub from: Option<String>,
    pub to: Option<String>,
    pub state: JobState,
    /// The reason why it ran or not.
    pub reason: Option<String>,
    /// The reason why it failed, and a hint.
    pub failure: Option<JobFailure>,
    /// Number of attempts.
    pub attempts: u32,
    /// Seconds from the start of the run to that of its first attempt. `None` if it was not
    /// started.
    pub started: Option<f64>,
    /// Seconds from there to its end, including waits between attempts.
    pub seconds: f64,
    /// Size of the input's files.
    pub bytes_in: u64,
    /// Size of the output's files.
    pub bytes_out: u64,
    pub tensors: Option<u64>,
    pub records: Option<u64>,
    /// The outcome for each entry of its input, if that is a folder, a glob or a set.
    pub account: Option<AccountRecord>,
    pub losses: Vec<LossRecord<'static>>,
    pub notes: Vec<String>,
    /// Number of tensors or records that were read back and compared before the commit, with
    /// `verify`.
    pub verified: Option<u64>,
    /// The path of its receipt.
    pub receipt: Option<String>,
}

/// The result of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// This run completed it.
    Done,
    /// An earlier run completed it, and it is up to date.
    Unchanged,
    /// It failed permanently.
    Failed,
    /// It was stopped, or not started, when the run ended early.
    #[default]
    Cancelled,
    /// This run did not select it: `--only`, `--shard`.
    LeftOut,
}

impl JobState {
    /// All states, those that need attention first.
    pub const ALL: [Self; 5] = [Self::Failed, Self::Cancelled, Self::Done, Self::Unchanged, Self::LeftOut];

    /// Returns the state's name for people.
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
    /// The exit code of its process, as in the program's contract. `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended its process.
    pub signal: Option<i32>,
    /// The kind of the failure: `malformed`, `io`, `crashed`, `timed out`, …
    pub kind: String,
    pub message: String,
    /// The place, as names and texts: `file`, `tensor`, `offset`, `expected`, `found`.
    pub details: Vec<(String, String)>,
    /// How to fix the problem, if a retry does not help.
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
    pub(crate) fn is_passing(&self) -> bool {
        self.exit_code == Some(i32::from(TRANSIENT))
    }

    /// Returns whether the system is at fault.
    pub(crate) fn is_of_environment(&self) -> bool {
        self.exit_code == Some(i32::from(ENVIRONMENT))
    }

    /// Returns whether the input is at fault.
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
    /// Returns the sums over these jobs.
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
