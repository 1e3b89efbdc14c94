//! Makes a plan from a manifest. Jobs are found and written one by one, so that a million jobs need
//! little memory.

use super::only::OnlyCheck;
use super::options::RunOptions;
use super::{Run, schemas};
use crate::events::EventListener;
use crate::job::{Job, PlannedWork};
use crate::journal::Journal;
use crate::manifest::{self, Expanded, Mistake, RunTable, Variables};
use crate::plan::{PieceWriter, PlanHeader, PlannedJob};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tensorferry::Registry;
use tensorferry_convert::receipt::now;
use tensorferry_sdk::{Error, Result};

/// The options for making a plan.
#[derive(Debug)]
pub struct PlanOptions {
    /// The path or URL of the plan.
    pub folder: PathBuf,
    /// Maximum number of jobs in a piece.
    pub piece_jobs: usize,
    /// Maximum input size of a piece with more than one job.
    pub piece_bytes: u64,
    /// Size in bytes of the buffers for all jobs of a worker. If `None`, the manifest's value or
    /// the default is used.
    pub memory: Option<u64>,
    /// The run options: which jobs are selected, and how file groups are scanned for the schemas of
    /// datasets.
    pub run: RunOptions,
}

/// The result of making a plan.
#[derive(Debug)]
pub struct MadePlan {
    pub header: PlanHeader,
    pub notes: Vec<String>,
}

/// Makes a plan. The schemas of datasets are determined here, once for all workers, and are
/// recorded in the manifest's journal. If the function is interrupted, the next attempt uses the
/// recorded schemas. The inner result contains an error with all mistakes if the manifest has any.
pub fn make_plan(
    options: PlanOptions,
    variables: &Variables,
    registry: &Registry,
    listener: &dyn EventListener,
    cancelled: &AtomicBool,
) -> Result<std::result::Result<MadePlan, Vec<Mistake>>> {
    let PlanOptions { folder, piece_jobs, piece_bytes, memory, mut run } = options;
    let size = (piece_jobs, piece_bytes);
    let mut writer = PieceWriter::new(registry, &folder, &run.manifest, size, run.budget.memory)?;
    let mut groups = Vec::new();
    let mut written = Ok(());
    let mut asked = OnlyCheck::of(run.only.as_ref());
    let mut take = |table: &RunTable, job: Job| {
        if let (None, Some(size)) = (memory, table.memory) {
            writer.set_memory(size.0);
        }
        if cancelled.load(Ordering::Relaxed) && written.is_ok() {
            written = Err(Error::cancelled("the plan was not finished"));
        }
        asked.see(&job.name);
        if !run.wants(&job) || written.is_err() {
        } else if job.lacks_schema() {
            groups.push(job);
        } else {
            written = writer.add(job);
        }
    };
    let Expanded { run: table, notes } = match manifest::expand(&run.manifest, variables, registry, &mut take)
    {
        Ok(expanded) => expanded,
        Err(mistakes) => return Ok(Err(mistakes)),
    };
    written?;
    asked.finish()?;
    if let Some(journal) = &table.journal {
        run.journal = journal.into();
    }
    if !groups.is_empty() {
        let found = find_schemas(&mut groups, &run, registry, listener, cancelled)?;
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::cancelled("the plan was not finished"));
        }
        for (index, job) in groups.into_iter().enumerate() {
            let work = PlannedWork { key: String::new(), bytes: 0, memory: 0 };
            writer.add_planned(PlannedJob {
                work,
                job,
                failure: found.failures.get(&index).cloned(),
                refused: found.refused.get(&index).cloned(),
                scanned: found.scanned.get(&index).cloned().unwrap_or_default(),
            })?;
        }
    }
    let header = writer.finish()?;
    Ok(Ok(MadePlan { header, notes: notes.into_iter().chain(left_to_workers(&table)).collect() }))
}

/// Returns a note about settings that apply to all jobs together. Workers cannot enforce these
/// settings, because they run independently of each other.
fn left_to_workers(table: &RunTable) -> Option<String> {
    let keys = [
        ("jobs", table.jobs.is_some()),
        ("threads", table.threads.is_some()),
        ("rate", table.rate.is_some()),
        ("fail_fast", table.fail_fast.is_some()),
        ("report", table.report.is_some()),
    ];
    let given: Vec<&str> = keys.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect();
    (!given.is_empty()).then(|| {
        format!(
            "a plan ignores these settings of [run]: {}; each worker has its own options",
            given.join(", ")
        )
    })
}

fn find_schemas(
    groups: &mut [Job],
    options: &RunOptions,
    registry: &Registry,
    listener: &dyn EventListener,
    cancelled: &AtomicBool,
) -> Result<schemas::DatasetSchemas> {
    let (journal, history) = Journal::open(&options.journal, None)?;
    let (session, started, at) = (registry.session(), Instant::now(), now());
    let run = Run { options, session, listener, cancelled, journal, history, piece: None, started, at };
    run.begin()?;
    let found = run.find_schemas(groups, registry)?;
    run.end()?;
    Ok(found)
}
