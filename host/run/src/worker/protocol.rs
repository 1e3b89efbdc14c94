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
    /// Only scan the job's file group.
    pub(crate) scan_only: bool,
    /// The state of the group's files when they were scanned.
    pub(crate) scanned: Vec<StampedFile>,
    /// The reason why nothing of it may become visible, unless the conversion fails with a
    /// different error.
    pub(crate) refused: Option<JobFailure>,
    /// Plan the job without writing anything.
    pub(crate) dry_run: bool,
    /// Files of the output that an earlier run has written and that may be replaced.
    pub(crate) owned: Vec<PathBuf>,
    /// For a plan: the state of these files when that was decided.
    pub(crate) seen: Vec<StampedFile>,
    /// Files that earlier runs wrote for this output, with their state at that time.
    pub(crate) earlier: Vec<StampedFile>,
    pub(crate) share: Share,
    /// Bytes that the process may allocate in addition to those at its start.
    pub(crate) limit: u64,
}

/// The runner's reply to [`WorkerEvent::Ready`] and [`WorkerEvent::Visible`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CommitReply {
    /// The commit is in the journal: make the output visible.
    Commit,
    /// Stop the job.
    Stop,
}

/// An event that a worker process reports about its job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum WorkerEvent {
    /// Number of input bytes that a long call has read, and their total.
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
    /// These objects have to become visible before everything is staged. Waits for permission.
    Visible {
        outputs: Vec<StampedFile>,
    },
    /// Everything is staged. Waits for permission to commit.
    Ready {
        made: Box<OutputRecord>,
    },
    /// The output is visible or, in a dry run, planned. `outputs` are the identities of its objects
    /// in a store.
    Done {
        summary: Box<JobSummary>,
        files: Vec<(PathBuf, u64)>,
        outputs: Vec<StampedFile>,
    },
    Scanned {
        scan: Box<GroupScan>,
    },
    /// Nothing has become visible.
    Failed {
        failure: JobFailure,
    },
}
