//! The options of a run, and its result.

use super::only::Only;
use super::shard::Shard;
use crate::budget::Budget;
use crate::events::EventListener;
use crate::job::Job;
use crate::journal;
use crate::pool::WorkerPool;
use crate::report::{BudgetSummary, JobSummary, Summary, Totals, VERSION};
use crate::worker::WorkerCommand;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tensorferry_sdk::{Error, Result};

#[derive(Debug)]
pub struct RunOptions {
    /// The path of the manifest, which is used in messages.
    pub manifest: PathBuf,
    pub journal: PathBuf,
    /// The patterns of `--only`, if it was passed.
    pub only: Option<Only>,
    /// The value of `--shard`, if it was passed.
    pub shard: Option<Shard>,
    /// Whether `--explain` was passed.
    pub explain: bool,
    /// Whether `--fail-fast` was passed.
    pub fail_fast: bool,
    /// The resources that the jobs share.
    pub budget: Budget,
    /// The command that starts worker processes.
    pub worker: WorkerCommand,
}

#[derive(Debug)]
pub struct RunOutcome {
    pub summary: Summary,
    pub exit_code: u8,
    pub notes: Vec<String>,
    /// The error if the run ended early because its journal could not be written.
    pub error: Option<Error>,
}

impl RunOptions {
    /// Returns the default path of a manifest's journal.
    #[must_use]
    pub fn journal_of(manifest: &Path) -> PathBuf {
        manifest.with_extension("journal.jsonl")
    }

    /// Returns the default folder of the report: `NAME.report` next to the journal
    /// `NAME.journal.jsonl`. If that folder is a link, returns an error. Such a link may have been
    /// copied along with the manifest, and its target may be anywhere.
    pub fn report_folder(&self) -> Result<PathBuf> {
        let shard = self.shard.map(|shard| format!(".{}", shard.word())).unwrap_or_default();
        let folder = self.journal.with_file_name(format!("{}{shard}.report", journal::stem(&self.journal)));
        match folder.is_symlink() {
            true => Err(Error::usage("the report's folder is a link")
                .file(folder.display().to_string())
                .hint("remove the link, or pass --report with a different folder")),
            false => Ok(folder),
        }
    }

    /// Returns whether `--only` and `--shard` select a job.
    #[must_use]
    pub fn wants(&self, job: &Job) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(&job.name))
            && self.shard.is_none_or(|shard| shard.has(job.output()))
    }

    /// Creates the summary of a run that started at `at`.
    pub(super) fn summary(
        &self,
        at: &str,
        started: Instant,
        interrupted: bool,
        totals: Totals,
        jobs: Vec<JobSummary>,
    ) -> Summary {
        let budget = &self.budget;
        Summary {
            report: VERSION,
            ferry: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: self.manifest.display().to_string(),
            started: at.to_owned(),
            seconds: started.elapsed().as_secs_f64(),
            interrupted,
            totals,
            budget: BudgetSummary {
                jobs: budget.jobs as u64,
                small_jobs: budget.places() as u64,
                threads: budget.threads as u64,
                memory: budget.memory,
            },
            jobs,
        }
    }

    /// Creates a pool that scans file groups.
    pub(super) fn pool<'a>(
        &'a self,
        listener: &'a dyn EventListener,
        cancelled: &'a AtomicBool,
    ) -> WorkerPool<'a> {
        WorkerPool {
            budget: &self.budget,
            worker: &self.worker,
            scan_only: true,
            journal: None,
            listener,
            cancelled,
            fail_fast: false,
            idle: None,
            elsewhere: None,
        }
    }
}
