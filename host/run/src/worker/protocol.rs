//! What the runner and a worker process send to each other: one JSON document a line.

use crate::budget::Share;
use crate::job::Job;
use crate::journal::{GroupScan, OutputRecord, StampedFile};
use crate::report::{Failure, JobSummary};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A job to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerTask {
    pub(crate) job: Job,
    /// Scan the job's file group, and do no more.
    pub(crate) scan_only: bool,
    /// What the files of the group were when they were scanned.
    pub(crate) scanned: Vec<StampedFile>,
    /// Why nothing of it may become visible, unless the conversion itself fails first.
    pub(crate) refused: Option<Failure>,
    /// Plan and write nothing.
    pub(crate) dry_run: bool,
    /// Files of the output that an earlier run has written, and which may be replaced.
    pub(crate) owned: Vec<PathBuf>,
    /// Of a plan, what these were when that was decided.
    pub(crate) seen: Vec<StampedFile>,
    /// What earlier runs have written for this output, as it was then.
    pub(crate) earlier: Vec<StampedFile>,
    pub(crate) share: Share,
    /// Bytes that the process may allocate beyond what it starts with.
    pub(crate) limit: u64,
}

/// The runner's answer to [`WorkerEvent::Ready`] and [`WorkerEvent::Visible`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CommitReply {
    /// It is in the journal: make it visible.
    Commit,
    /// Give it up.
    Stop,
}

/// What a worker process reports of its job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum WorkerEvent {
    /// How many bytes of the input a long call has gone through, of how many.
    Reads { bytes: u64, of: u64 },
    /// How many bytes will be copied.
    Began { bytes: u64 },
    /// How many have been.
    Moved { bytes: u64 },
    /// These objects have to become visible before all is staged: may they?
    Visible { outputs: Vec<StampedFile> },
    /// Everything is staged: may it become visible?
    Ready { made: Box<OutputRecord> },
    /// It is visible; or, of a dry run, this is the plan. `outputs`: what its objects of a store are.
    Done { summary: Box<JobSummary>, files: Vec<(PathBuf, u64)>, outputs: Vec<StampedFile> },
    /// The file group was scanned.
    Scanned { scan: Box<GroupScan> },
    /// Nothing has become visible.
    Failed { failure: Failure },
}
