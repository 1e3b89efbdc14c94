//! One run of a manifest's jobs: it decides which must run, runs them, and returns a summary.

mod decide;
mod dry_run;
mod options;
mod result;
mod schemas;
mod shard;

pub use dry_run::{JobPlan, RunPlan, plan};
pub use options::{RunOptions, RunOutcome};
pub use shard::Shard;

use crate::events::{Event, EventListener};
use crate::job::{Force, Job};
use crate::journal::{GroupScan, History, Journal, OutputHistory, Record};
use crate::pool::{FinishedJob, QueuedJob, WorkerPool};
use crate::report::{BudgetSummary, Failure, JobSummary, Summary, Totals, VERSION};
use crate::worker::JobOutcome;
use decide::{Decision, decide};
use rayon::prelude::*;
use schemas::{DatasetSchemas, ScanResult, SchemaStore};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tensorferry::engine::context::fault;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::receipt::now;
use tensorferry_sdk::Result;

/// Does what has to be done of `jobs`. That a job fails is no error.
///
/// # Errors
/// Transient, if another run has the journal; i/o, if it cannot be written.
pub fn run(
    jobs: &[Job],
    registry: &Registry,
    options: &RunOptions,
    listener: &dyn EventListener,
    cancelled: &AtomicBool,
) -> Result<RunOutcome> {
    let (started, at) = (Instant::now(), now());
    let part = options.shard.map(Shard::word);
    let (journal, history) = Journal::open(&options.journal, part.as_deref())?;
    journal.append_synced(&Record::Begin {
        at: at.clone(),
        ferry: env!("CARGO_PKG_VERSION").to_owned(),
        manifest: options.manifest.clone(),
        process: std::process::id(),
    })?;
    fault::reach("journal-begun")?;

    let mut jobs = jobs.to_vec();
    let scan_pool = options.pool(listener, cancelled);
    let scan_missing = |groups: &[Job]| scan_groups(groups, &scan_pool, &journal);
    let store = SchemaStore { journal: &options.journal, writes: true };
    let is_wanted = |job: &Job| options.wants(job);
    let schemas = schemas::find(&mut jobs, &is_wanted, &history, registry, &store, &scan_missing)?;

    let decisions: Vec<Option<Decision>> = jobs
        .par_iter()
        .enumerate()
        .map(|(index, job)| {
            let is_open = options.wants(job) && !schemas.failures.contains_key(&index);
            is_open.then(|| decide(job, &history, registry, true))
        })
        .collect();
    let mut queued = Vec::new();
    let mut results: Vec<JobSummary> = Vec::with_capacity(jobs.len());
    for ((index, job), decision) in jobs.iter().enumerate().zip(&decisions) {
        let known = history.of(&job.conversion.output);
        if let Some(decision) = decision {
            let runs = decision.runs();
            if options.explain {
                listener.on_event(&Event::Decided { name: &job.name, runs, reason: &decision.reason() });
            }
            if let Decision::Unchanged { lacks_record: true, .. } = decision {
                journal.append_done(&job.conversion.output)?;
            }
            if runs && !job.lacks_schema() {
                queued.push(queue(index, job, known, &schemas));
            }
        }
        results.push(result::before(job, decision.as_ref(), known.and_then(|known| known.commit.as_ref())));
    }
    listener.on_event(&Event::RunBegan {
        jobs: jobs.iter().filter(|job| options.wants(job)).count(),
        to_run: queued.len(),
        bytes: queued.iter().map(|queued| queued.bytes).sum(),
        journal: journal.path().to_owned(),
    });

    let finished = Mutex::new(Vec::new());
    let on_finished = |job: &Job, how: FinishedJob| {
        let (index, summary) = result::after(job, how, &journal, &options.manifest, started);
        listener.on_event(&result::event(&summary));
        if let Ok(mut finished) = finished.lock() {
            finished.push((index, summary));
        }
    };
    let mut failures: Vec<(&usize, &Failure)> = schemas.failures.iter().collect();
    failures.sort_by_key(|(index, _)| **index);
    failures.retain(|(index, _)| options.wants(&jobs[**index]));
    for &(&index, failure) in &failures {
        let outcome = JobOutcome::Failed(failure.clone());
        let ended = Instant::now();
        on_finished(&jobs[index], FinishedJob { index, outcome, attempts: 1, began: None, ended });
    }
    if options.fail_fast && !failures.is_empty() {
        queued.clear();
    }
    let pool = WorkerPool {
        scan_only: false,
        journal: Some(&journal),
        fail_fast: options.fail_fast,
        ..options.pool(listener, cancelled)
    };
    pool.run(queued, &on_finished);
    for (index, mut summary) in finished.into_inner().unwrap_or_default() {
        summary.reason.clone_from(&results[index].reason);
        results[index] = summary;
    }
    journal.append(&Record::End { at: now() })?;
    journal.sync()?;

    let budget = &options.budget;
    let summary = Summary {
        report: VERSION,
        ferry: env!("CARGO_PKG_VERSION").to_owned(),
        manifest: options.manifest.display().to_string(),
        started: at,
        seconds: started.elapsed().as_secs_f64(),
        interrupted: cancelled.load(Ordering::Relaxed),
        totals: Totals::of(&results),
        budget: BudgetSummary {
            jobs: budget.jobs as u64,
            small_jobs: budget.places() as u64,
            threads: budget.threads as u64,
            memory: budget.memory,
        },
        jobs: results,
    };
    listener.on_event(&Event::RunEnded {
        totals: &summary.totals,
        interrupted: summary.interrupted,
        seconds: summary.seconds,
    });
    Ok(RunOutcome {
        exit_code: result::exit_code(&summary),
        summary,
        notes: obsolete_outputs(&jobs, &history),
    })
}

fn queue<'a>(
    index: usize,
    job: &'a Job,
    known: Option<&OutputHistory>,
    schemas: &DatasetSchemas,
) -> QueuedJob<'a> {
    let own = known.filter(|_| job.policy.force == Force::Own);
    QueuedJob {
        owned: own.map(OutputHistory::visible_files).unwrap_or_default(),
        scanned: schemas.scans.get(&index).map(|scan| scan.inputs.clone()).unwrap_or_default(),
        refused: schemas.refused.get(&index).cloned(),
        ..QueuedJob::new(index, job)
    }
}

/// Scans file groups, each in a process, and writes what was found to the journal.
fn scan_groups(groups: &[Job], pool: &WorkerPool<'_>, journal: &Journal) -> Result<Vec<Option<ScanResult>>> {
    let queued = groups.iter().enumerate().map(|(index, job)| QueuedJob::new(index, job)).collect();
    let results = Mutex::new((vec![None; groups.len()], Ok(())));
    let silent = WorkerPool { listener: &(), ..*pool };
    silent.run(queued, &|job, finished| {
        let scanned = match finished.outcome {
            JobOutcome::Scanned(scan) => Ok(*scan),
            JobOutcome::Failed(failure) => Err(failure),
            JobOutcome::Cancelled | JobOutcome::Done { .. } => return,
        };
        let noted = match (&scanned, GroupScan::key(job)) {
            (Ok(scan), Some(key)) => {
                let record = Record::Scanned { key, scan: Box::new(scan.clone()) };
                fault::reach("journal-scanned").and_then(|()| journal.append(&record).map(drop))
            }
            _ => Ok(()),
        };
        if let Ok(mut results) = results.lock() {
            results.0[finished.index] = Some(scanned);
            results.1 = std::mem::replace(&mut results.1, Ok(())).and(noted);
            let scanned = results.0.iter().flatten().count();
            pool.listener.on_event(&Event::Scanned { name: &job.name, scanned, of: groups.len() });
        }
    });
    let (results, noted) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    noted.map(|()| results)
}

/// A note for each data set whose folder still has outputs of file groups that no longer exist: who reads
/// the folder reads those too.
fn obsolete_outputs(jobs: &[Job], history: &History) -> Vec<String> {
    let mut outputs: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for job in jobs {
        if let Some(group) = &job.conversion.file_group {
            outputs.entry(&group.dataset).or_default().insert(&job.conversion.output);
        }
    }
    let mut obsolete: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (output, known) in history.outputs() {
        let group = known.commit.as_ref().and_then(|commit| commit.conversion.file_group.as_ref());
        let Some(group) = group else { continue };
        let is_obsolete = outputs.get(&*group.dataset).is_some_and(|outputs| !outputs.contains(output));
        if let Some(file) = known.owned.iter().find(|file| is_obsolete && file.exists()) {
            obsolete.entry(&group.dataset).or_default().push(file);
        }
    }
    let note = |(dataset, files): (&str, Vec<&Path>)| {
        let first = files.iter().min().map(|file| file.display().to_string()).unwrap_or_default();
        let outputs = match files.len() {
            1 => "an output is left".to_owned(),
            count => format!("{count} outputs are left"),
        };
        format!(
            "{outputs} of the data set {dataset:?} that no file group makes any more: {first}; remove what is not wanted"
        )
    };
    obsolete.into_iter().map(note).collect()
}
