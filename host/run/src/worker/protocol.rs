//! The messages between the runner and a worker process: one JSON document per line.

use crate::budget::Share;
use crate::job::Job;
use crate::journal::{GroupScan, OutputRecord, StampedFile};
use crate::report::{JobFailure, JobSummary};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerTask {
    pub(crate) job: Job,
    /// Whether to only scan the job's file group.
    pub(crate) scan_only: bool,
    /// The state of the file group's files at the time of the scan.
    pub(crate) scanned: Vec<StampedFile>,
    /// The reason why the job must not produce an output. This reason is reported unless the
    /// conversion fails with a different error.
    pub(crate) refused: Option<JobFailure>,
    /// Whether to only plan the job, without writing anything.
    pub(crate) dry_run: bool,
    /// Files of the output that earlier runs have written and that may be replaced.
    pub(crate) owned: Vec<PathBuf>,
    /// For a plan, the state of the files in `owned` when ferry decided that these files may be
    /// replaced.
    pub(crate) seen: Vec<StampedFile>,
    /// The files that earlier runs wrote for this output, each with its state at that time.
    pub(crate) earlier: Vec<StampedFile>,
    pub(crate) share: Share,
    /// Number of bytes that the process may allocate in addition to the memory that it uses at
    /// startup.
    pub(crate) limit: u64,
}

/// The runner's reply to [`WorkerEvent::Ready`] and [`WorkerEvent::Visible`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CommitReply {
    /// Make the output visible. The commit has been recorded in the journal.
    Commit,
    /// Stop the job.
    Stop,
}

/// An event that a worker process reports about its job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum WorkerEvent {
    /// Number of input bytes that a long operation has read, and the total number.
    Reads {
        bytes: u64,
        of: u64,
    },
    /// Number of bytes to copy.
    Began {
        bytes: u64,
    },
    /// Number of bytes copied so far.
    Moved {
        bytes: u64,
    },
    /// These objects have to become visible before the whole output is staged. The worker waits for
    /// permission.
    Visible {
        outputs: Vec<StampedFile>,
    },
    /// The whole output is staged. The worker waits for permission to commit.
    Ready {
        made: Box<OutputRecord>,
    },
    /// The output is visible. In a dry run, the output is planned. If the output is in a store,
    /// `outputs` are its objects with their identities.
    Done {
        summary: Box<JobSummary>,
        files: Vec<(PathBuf, u64)>,
        outputs: Vec<StampedFile>,
    },
    Scanned {
        scan: Box<GroupScan>,
    },
    /// The job failed, and nothing has become visible.
    Failed {
        failure: JobFailure,
    },
}
