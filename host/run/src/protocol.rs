//! What the runner and a job's process say to each other: one JSON document a line, over the
//! process's standard input and output.

use super::found::Placed;
use super::job::Job;
use super::scan::Scan;
use super::summary::{Failure, JobSummary};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tensorferry::engine::formats::used::UsedFormat;
use tensorferry::engine::publish::stage::{Destination, Kind};

/// A job to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) job: Job,
    /// Look at the files of the job's unit, and no more.
    pub(super) scan: bool,
    /// What the files of the unit were when they were looked at.
    pub(super) scanned: Vec<Placed>,
    /// Why nothing of it may become visible, unless the conversion itself says so first.
    pub(super) refused: Option<Failure>,
    /// Plan and write nothing.
    pub(super) dry_run: bool,
    /// Files of the output that an earlier run has written, and which may be replaced.
    pub(super) owned: Vec<PathBuf>,
    /// Threads that copy.
    pub(super) threads: usize,
    /// Bytes of buffers.
    pub(super) memory: u64,
    /// Bytes that the process may allocate beyond what it starts with.
    pub(super) limit: u64,
    /// Bytes a second.
    pub(super) rate: Option<u64>,
}

/// The runner's answer to [`Said::Ready`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It is in the journal: make it visible.
    Commit,
    /// Give it up.
    Stop,
}

/// What a job's process tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Said {
    /// So many bytes will be copied.
    Began { bytes: u64 },
    /// So many have been.
    Moved { bytes: u64 },
    /// Everything is staged: may it become visible?
    Ready { made: Box<Made> },
    /// It is visible; or, of a dry run, this is the plan.
    Done { summary: Box<JobSummary>, files: Vec<(PathBuf, u64)> },
    /// The unit was looked at.
    Scanned { scan: Box<Scan> },
    /// Nothing has become visible.
    Failed { failure: Failure },
}

/// What a job has made, of what: everything that tells later whether it must be made again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Made {
    /// The folder that the output lies in.
    pub folder: PathBuf,
    /// The output's name among others in the folder; none if the folder is its own.
    pub name: Option<String>,
    /// The formats that the input was read as.
    pub readers: Vec<UsedFormat>,
    /// The format that was written.
    pub writer: UsedFormat,
    /// Every file that was read.
    pub inputs: Vec<Placed>,
    /// Of an input folder, a digest of the names in it.
    pub listing: Option<String>,
    /// Every file of the output.
    pub outputs: Vec<Placed>,
    /// What it came to.
    pub summary: JobSummary,
}

impl Made {
    /// Where the output goes.
    #[must_use]
    pub fn destination(&self) -> Destination {
        let kind = self.name.clone().map_or(Kind::Folder, |name| Kind::Beside { name });
        Destination { folder: self.folder.clone(), kind }
    }
}
