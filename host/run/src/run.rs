//! Runs the jobs of a manifest: decides which jobs must run, runs them, and returns a summary.

mod decide;
mod dry_run;
mod make_plan;
mod obsolete;
mod only;
mod options;
mod pieces;
mod result;
mod schemas;
mod shard;

pub use dry_run::{JobPlan, RunPlan, dry_run};
pub use make_plan::{MadePlan, PlanOptions, make_plan};
pub use only::Only;
pub use options::{RunOptions, RunOutcome};
pub use pieces::run_plan;
pub(crate) use pieces::{PieceOutcome, PieceRunner, worse};
pub use shard::Shard;

use crate::events::{Event, EventListener};
use crate::job::{Force, Job, PlannedWork};
use crate::journal::{
    Commit, GroupScan, History, Journal, OutputHistory, Record, StampedFile, output_identity,
};
use crate::pool::{FailureFallback, FinishedJob, QueuedJob, WorkerPool};
use crate::report::{JobFailure, JobSummary, Summary, Totals};
use crate::worker::{IdleWorkers, JobOutcome};
use decide::{Decision, decide};
use rayon::prelude::*;
use schemas::{DatasetSchemas, ScanResult, SchemaStore};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tensorferry::{Registry, Session};
use tensorferry_convert::receipt::now;
use tensorferry_core::context::fault;
use tensorferry_sdk::Result;

/// Runs the jobs that must run. The failure of a job is not an error of the run. If a different run
/// is using the journal, returns a temporary failure.
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
    let session = registry.session();
    let run = Run { options, session, listener, cancelled, journal, history, piece: None, started, at };
    run.begin()?;
    let mut jobs = jobs.to_vec();
    let schemas = run.find_schemas(&mut jobs, registry)?;
    let decisions = run.decide_all(&jobs, &schemas, registry)?;
    let queued = run.queue(&jobs, &decisions, &schemas);
    let finished = run.convert(&jobs, &schemas, queued, None);
    let error = run.end().err();
    let summary = run.summary(run.results(&jobs, &decisions, finished));
    let obsolete = obsolete::notes(&jobs, &run.history);
    Ok(RunOutcome {
        exit_code: result::exit_code(&summary.jobs, summary.interrupted),
        summary,
        notes: obsolete.into_iter().chain(run.history.damage()).collect(),
        error,
    })
}

struct Run<'a> {
    options: &'a RunOptions,
    session: &'a Session,
    listener: &'a dyn EventListener,
    cancelled: &'a AtomicBool,
    journal: Journal,
    history: History,
    /// The piece to which the jobs belong, if they are part of a plan.
    piece: Option<Piece<'a>>,
    started: Instant,
    at: String,
}

/// A piece of a plan that is being run.
struct Piece<'a> {
    number: u64,
    /// The plan's entries for the piece's jobs.
    work: &'a [PlannedWork],
    /// The worker processes of previous pieces, which can be reused.
    idle: &'a IdleWorkers,
}

impl Run<'_> {
    fn begin(&self) -> Result<()> {
        self.journal.append_synced(&Record::begin(&self.at, &self.options.manifest))?;
        fault::reach("journal-begun")
    }

    fn end(&self) -> Result<()> {
        self.journal.append(&Record::End { at: now() })?;
        self.journal.sync()
    }

    /// Returns the key of a job, if the job is part of a plan.
    fn key(&self, index: usize) -> Option<String> {
        self.piece.as_ref().map(|piece| piece.work[index].key.clone())
    }

    /// Finds the schemas of datasets, and stores them in the jobs of the datasets' file groups.
    fn find_schemas(&self, jobs: &mut [Job], registry: &Registry) -> Result<DatasetSchemas> {
        let scan_missing = |groups: &[Job]| self.scan_groups(groups);
        let store = SchemaStore { journal: &self.options.journal, writes: true };
        let is_wanted = |job: &Job| self.options.wants(job);
        schemas::find(jobs, &is_wanted, &self.history, registry, &store, &scan_missing)
    }

    /// Decides for each job whether it must run. The decision is `None` for a job that is not
    /// selected or has already failed.
    fn decide_all(
        &self,
        jobs: &[Job],
        schemas: &DatasetSchemas,
        registry: &Registry,
    ) -> Result<Vec<Option<Decision<'_>>>> {
        let one = |(index, job): (usize, &Job)| {
            let is_open = self.options.wants(job) && !schemas.failures.contains_key(&index);
            is_open.then(|| decide(job, &self.history, registry, true))
        };
        let decisions: Vec<_> = jobs.par_iter().enumerate().map(one).collect();
        for (index, (job, decision)) in jobs.iter().zip(&decisions).enumerate() {
            let Some(decision) = decision else { continue };
            if self.options.explain {
                let (runs, reason) = (decision.runs(), &*decision.reason());
                self.listener.on_event(&Event::Decided { name: &job.name, runs, reason });
            }
            if let Decision::Unchanged(commit) = decision
                && !commit.done
            {
                self.note_done(index, job, commit)?;
            }
        }
        Ok(decisions)
    }

    /// Records in this run's journal that a commit was completed, because the run that made the
    /// commit could not record its completion. In a plan, a different worker may have made the
    /// commit. In that case, the commit itself is also recorded, because that worker's journal does
    /// not state that the commit was completed.
    fn note_done(&self, index: usize, job: &Job, commit: &Commit) -> Result<()> {
        let output = job.output().to_owned();
        if self.piece.is_some() {
            let (request, mut made) = (Box::new(commit.request.clone()), Box::new(commit.made.clone()));
            if commit.is_elsewhere {
                for file in made.inputs.iter_mut().chain(&mut made.outputs) {
                    *file = file.without_inode();
                }
            }
            let (at, key) = (commit.at.clone(), commit.key.clone());
            self.journal.append(&Record::Commit { at, output: output.clone(), key, request, made })?;
        }
        self.journal.append_done(&output, self.key(index), self.stamps(&commit.made.outputs))
    }

    /// Returns the current state of those objects in a store for which only the length was
    /// recorded.
    fn stamps(&self, outputs: &[StampedFile]) -> Vec<StampedFile> {
        let unknown = outputs.iter().filter(|file| file.identity.is_of_len_alone());
        unknown.map(|file| file.seen(self.session)).collect()
    }

    fn queue<'j>(
        &'j self,
        jobs: &'j [Job],
        decisions: &[Option<Decision<'_>>],
        schemas: &DatasetSchemas,
    ) -> Vec<QueuedJob<'j>> {
        let must_run = |(index, job): &(usize, &Job)| {
            decisions[*index].as_ref().is_some_and(Decision::runs) && !job.lacks_schema()
        };
        let queued = jobs.iter().enumerate().filter(must_run).map(|(index, job)| {
            let known = self.history.of(job.output());
            let own = known.filter(|_| job.policy.force == Force::Own);
            let owned = own.map(|known| known.visible_files(self.session)).unwrap_or_default();
            QueuedJob {
                seen: if self.piece.is_some() { self.seen(&owned) } else { Vec::new() },
                owned,
                earlier: known.map(OutputHistory::written).unwrap_or_default(),
                scanned: schemas.scanned.get(&index).cloned().unwrap_or_default(),
                refused: schemas.refused.get(&index).cloned(),
                ..match &self.piece {
                    Some(piece) => QueuedJob::planned(index, job, &piece.work[index]),
                    None => QueuedJob::new(index, job, self.session),
                }
            }
        });
        let queued: Vec<_> = queued.collect();
        let count = jobs.iter().filter(|job| self.options.wants(job)).count();
        let (to_run, bytes) = (queued.len(), queued.iter().map(|queued| queued.bytes).sum());
        self.listener.on_event(&match &self.piece {
            Some(piece) => Event::PieceBegan { piece: piece.number, jobs: count, to_run, bytes },
            None => Event::RunBegan { jobs: count, to_run, bytes, journal: self.journal.path().to_owned() },
        });
        queued
    }

    /// Returns the current state of output files.
    fn seen(&self, files: &[PathBuf]) -> Vec<StampedFile> {
        let stamped = |path: &PathBuf| {
            let identity = output_identity(path, self.session).ok().flatten()?;
            Some(StampedFile { path: path.clone(), identity })
        };
        files.iter().filter_map(stamped).collect()
    }

    /// Runs the jobs, and returns their results by job index.
    fn convert(
        &self,
        jobs: &[Job],
        schemas: &DatasetSchemas,
        mut queued: Vec<QueuedJob<'_>>,
        elsewhere: Option<&FailureFallback<'_>>,
    ) -> Vec<(usize, JobSummary)> {
        let results = Mutex::new(Vec::new());
        let on_finished = |job: &Job, finished: FinishedJob| {
            let index = finished.index;
            let summary = result::after(job, finished, self.key(index), self);
            self.listener.on_event(&result::event(&summary));
            if let Ok(mut results) = results.lock() {
                results.push((index, summary));
            }
        };
        let mut failures: Vec<(&usize, &JobFailure)> = schemas.failures.iter().collect();
        failures.sort_by_key(|(index, _)| **index);
        failures.retain(|(index, _)| self.options.wants(&jobs[**index]));
        for &(&index, failure) in &failures {
            let (outcome, ended) = (JobOutcome::Failed(failure.clone()), Instant::now());
            on_finished(&jobs[index], FinishedJob { index, outcome, attempts: 1, began: None, ended });
        }
        if self.options.fail_fast && !failures.is_empty() {
            queued.clear();
        }
        let pool = WorkerPool {
            scan_only: false,
            journal: Some(&self.journal),
            fail_fast: self.options.fail_fast,
            idle: self.piece.as_ref().map(|piece| piece.idle),
            elsewhere,
            ..self.options.pool(self.listener, self.cancelled)
        };
        pool.run(queued, &on_finished);
        results.into_inner().unwrap_or_default()
    }

    /// Returns the results of all jobs, in order.
    fn results(
        &self,
        jobs: &[Job],
        decisions: &[Option<Decision<'_>>],
        finished: Vec<(usize, JobSummary)>,
    ) -> Vec<JobSummary> {
        let before = |(job, decision): (&Job, &Option<Decision<'_>>)| result::before(job, decision.as_ref());
        let mut results: Vec<JobSummary> = jobs.iter().zip(decisions).map(before).collect();
        for (index, summary) in finished {
            results[index] = JobSummary { reason: results[index].reason.take(), ..summary };
        }
        results
    }

    fn summary(&self, jobs: Vec<JobSummary>) -> Summary {
        let interrupted = self.cancelled.load(Ordering::Relaxed);
        let summary = self.options.summary(&self.at, self.started, interrupted, Totals::of(&jobs), jobs);
        self.listener.on_event(&Event::RunEnded {
            totals: &summary.totals,
            interrupted: summary.interrupted,
            seconds: summary.seconds,
        });
        summary
    }

    /// Scans file groups in worker processes, and records the results in the journal.
    fn scan_groups(&self, groups: &[Job]) -> Result<Vec<Option<ScanResult>>> {
        let queued =
            groups.iter().enumerate().map(|(index, job)| QueuedJob::new(index, job, self.session)).collect();
        let results = Mutex::new((vec![None; groups.len()], Ok(())));
        self.options.pool(&(), self.cancelled).run(queued, &|job, finished| {
            let scanned = match finished.outcome {
                JobOutcome::Scanned(scan) => Ok(*scan),
                JobOutcome::Failed(failure) => Err(failure),
                JobOutcome::Cancelled | JobOutcome::Done { .. } => return,
            };
            let noted = match (&scanned, GroupScan::key(job)) {
                (Ok(scan), Some(key)) => {
                    let record = Record::Scanned { key, scan: Box::new(scan.clone()) };
                    fault::reach("journal-scanned").and_then(|()| self.journal.append(&record).map(drop))
                }
                _ => Ok(()),
            };
            if let Ok(mut results) = results.lock() {
                results.0[finished.index] = Some(scanned);
                results.1 = std::mem::replace(&mut results.1, Ok(())).and(noted);
                let scanned = results.0.iter().flatten().count();
                self.listener.on_event(&Event::Scanned { name: &job.name, scanned, of: groups.len() });
            }
        });
        let (results, noted) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        noted.map(|()| results)
    }
}
