//! What a run is asked for, and what it returns.

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

/// What a run is asked for.
#[derive(Debug)]
pub struct RunOptions {
    /// The manifest, for what people read.
    pub manifest: PathBuf,
    /// The manifest's journal.
    pub journal: PathBuf,
    /// `--only`: names.
    pub only: Option<Only>,
    /// `--shard`.
    pub shard: Option<Shard>,
    /// `--explain`.
    pub explain: bool,
    /// `--fail-fast`.
    pub fail_fast: bool,
    /// What the jobs share.
    pub budget: Budget,
    /// How a job's process is started.
    pub worker: WorkerCommand,
}

/// What a run returns.
#[derive(Debug)]
pub struct RunOutcome {
    /// All of it.
    pub summary: Summary,
    /// The program's exit code.
    pub exit_code: u8,
    /// What a person should know beside that.
    pub notes: Vec<String>,
    /// Why it ended early: its journal cannot be written.
    pub error: Option<Error>,
}

impl RunOptions {
    /// Where the journal of a manifest is, if the user does not say.
    #[must_use]
    pub fn journal_of(manifest: &Path) -> PathBuf {
        manifest.with_extension("journal.jsonl")
    }

    /// The folder of the report, if the user does not say: `NAME.report` beside the journal
    /// `NAME.journal.jsonl`.
    ///
    /// # Errors
    /// Usage, if a link has that name: it may have come with the manifest, and lead anywhere.
    pub fn report_folder(&self) -> Result<PathBuf> {
        let shard = self.shard.map(|shard| format!(".{}", shard.word())).unwrap_or_default();
        let folder = self.journal.with_file_name(format!("{}{shard}.report", journal::stem(&self.journal)));
        match folder.is_symlink() {
            true => {
                Err(Error::usage("the report's folder is a link: remove it, or say where the report goes")
                    .file(folder.display().to_string()))
            }
            false => Ok(folder),
        }
    }

    /// Whether a job is one of those that were asked for.
    #[must_use]
    pub fn wants(&self, job: &Job) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(&job.name))
            && self.shard.is_none_or(|shard| shard.has(job.output()))
    }

    /// The summary of a run that began then.
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

    /// A pool that scans file groups.
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
