//! Runs pieces of a plan in sequence. Each piece has its own journals, and other workers may run
//! the same piece.

use super::decide::{Decision, decide};
use super::only::{Only, OnlyCheck};
use super::options::{RunOptions, RunOutcome};
use super::schemas::DatasetSchemas;
use super::shard::Shard;
use super::{Piece, Run, result};
use crate::events::{Event, EventListener, PieceFailure};
use crate::exit::{INTERRUPTED, TRANSIENT, USAGE};
use crate::job::{Job, PlannedWork};
use crate::journal::{Journal, Record, this_host};
use crate::plan::{Plan, PlannedJob};
use crate::plan_folder::PlanFolder;
use crate::platform::boot_id;
use crate::pool::QueuedJob;
use crate::report::{JobFailure, JobState, JobSummary, Totals};
use crate::worker::{IdleWorkers, JobOutcome};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tensorferry::Registry;
use tensorferry_convert::receipt::now;
use tensorferry_sdk::{Error, Result};

/// Maximum number of jobs in a report. If there are more jobs, the report contains the failed jobs,
/// and as many other jobs as a browser can show.
const MAX_REPORTED: usize = 10_000;
/// Maximum number of failures in the event that ends a piece. The limit keeps messages to a
/// scheduler small.
const MAX_EVENT_FAILURES: usize = 20;

/// Runs the pieces of a plan that belong to a shard. The failure of a job is not an error of the
/// run.
pub fn run_plan(
    plan: &Plan,
    shard: Option<Shard>,
    registry: &Registry,
    options: &RunOptions,
    listener: &dyn EventListener,
    cancelled: &AtomicBool,
) -> Result<RunOutcome> {
    let (started, at) = (Instant::now(), now());
    let runner = PieceRunner::new(plan, registry, options, listener, cancelled);
    let mut totals = Totals::default();
    let mut jobs: Vec<JobSummary> = Vec::new();
    let (mut exit_code, mut damaged, mut error) = (0, 0, None);
    let is_own = |piece: &u64| shard.is_none_or(|shard| shard.has_piece(*piece));
    let mut notes = Vec::new();
    if let Some(only) = &options.only {
        notes.extend(check_only(plan, shard, only)?);
    }
    for piece in (0..plan.header().pieces).filter(is_own) {
        let outcome = runner.run(piece)?;
        totals.add(&outcome.totals);
        exit_code = worse(exit_code, outcome.exit_code);
        let room = |job: &JobSummary| match job.state {
            JobState::Failed => MAX_REPORTED,
            _ => MAX_REPORTED / 2,
        };
        for job in outcome.jobs {
            if jobs.len() < room(&job) {
                jobs.push(job);
            }
        }
        damaged += outcome.damaged;
        error = outcome.error;
        let is_over = error.is_some() || cancelled.load(Ordering::Relaxed);
        if is_over || (options.fail_fast && totals.failed > 0) {
            break;
        }
    }
    let interrupted = cancelled.load(Ordering::Relaxed);
    let all = totals.done + totals.unchanged + totals.failed + totals.cancelled + totals.left_out;
    if all > jobs.len() as u64 {
        notes.push(format!(
            "the report shows {} of {all} jobs; the others are only in the journals",
            jobs.len()
        ));
    }
    if damaged > 0 {
        notes.push(format!(
            "the journals have damaged lines ({damaged}); ferry ignores them and rechecks the affected jobs"
        ));
    }
    let summary = options.summary(&at, started, interrupted, totals, jobs);
    listener.on_event(&Event::RunEnded { totals: &summary.totals, interrupted, seconds: summary.seconds });
    Ok(RunOutcome { exit_code, summary, notes, error })
}

/// Checks that the selected jobs exist. A shard reads only its own pieces, so a missing job may be
/// in a piece of a different shard. For a shard, the function therefore returns a note instead of
/// an error.
fn check_only(plan: &Plan, shard: Option<Shard>, only: &Only) -> Result<Option<String>> {
    let mut check = OnlyCheck::of(Some(only));
    for piece in (0..plan.header().pieces).filter(|&piece| shard.is_none_or(|shard| shard.has_piece(piece))) {
        plan.piece(piece)?.iter().for_each(|planned| check.see(&planned.job.name));
    }
    match shard {
        None => check.finish().map(|()| None),
        Some(_) if check.has_any() => Ok(None),
        Some(_) => Ok(Some("no job of this shard matches --only".to_owned())),
    }
}

/// Combines two exit codes. An interruption takes precedence over a permanent failure, and a
/// permanent failure takes precedence over a temporary failure.
pub(crate) fn worse(one: u8, other: u8) -> u8 {
    let rank = |code: u8| match code {
        0 => 0,
        TRANSIENT => 1,
        INTERRUPTED => 3,
        _ => 2,
    };
    if rank(other) > rank(one) { other } else { one }
}

pub(crate) struct PieceRunner<'a> {
    plan: &'a Plan,
    registry: &'a Registry,
    options: &'a RunOptions,
    listener: &'a dyn EventListener,
    cancelled: &'a AtomicBool,
    worker: String,
    /// Number of pieces that this worker has started.
    begun: AtomicU64,
    idle: IdleWorkers,
}

pub(crate) struct PieceOutcome {
    pub(crate) exit_code: u8,
    pub(crate) totals: Totals,
    pub(crate) jobs: Vec<JobSummary>,
    /// Number of damaged lines in the piece's journals.
    pub(crate) damaged: usize,
    /// The error if the piece ended early because its journal could not be written.
    pub(crate) error: Option<Error>,
}

impl<'a> PieceRunner<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        registry: &'a Registry,
        options: &'a RunOptions,
        listener: &'a dyn EventListener,
        cancelled: &'a AtomicBool,
    ) -> Self {
        Self {
            plan,
            registry,
            options,
            listener,
            cancelled,
            worker: worker_name(),
            begun: AtomicU64::new(0),
            idle: IdleWorkers::new(&options.worker),
        }
    }

    /// Returns the unique name of this worker.
    pub(crate) fn worker(&self) -> &str {
        &self.worker
    }

    pub(crate) fn run(&self, number: u64) -> Result<PieceOutcome> {
        let (started, at) = (Instant::now(), now());
        let planned = self.plan.piece(number)?;
        let folder = self.plan.journal(number)?;
        // A worker may run the same piece several times. Each of these runs has its own journal.
        let own = format!("{}-{}", self.worker, self.begun.fetch_add(1, Ordering::Relaxed));
        let first = Record::begin(&at, &self.plan.header().manifest);
        let (journal, history) = Journal::of_piece(&folder, &own, &first, self.registry.session())?;
        let (jobs, work, schemas) = split_piece(planned);
        let run = Run {
            options: self.options,
            session: self.registry.session(),
            listener: self.listener,
            cancelled: self.cancelled,
            journal,
            history,
            piece: Some(Piece { number, work: &work, idle: &self.idle }),
            started,
            at,
        };
        let decisions = run.decide_all(&jobs, &schemas, self.registry)?;
        let queued = run.queue(&jobs, &decisions, &schemas);
        let elsewhere = |queued: &QueuedJob<'_>, failure| self.elsewhere(&folder, &own, queued, failure);
        let finished = run.convert(&jobs, &schemas, queued, Some(&elsewhere));
        let is_used = !run.journal.is_unused() || run.journal.has_failed();
        let error = if is_used { run.end().err() } else { None };
        let results = run.results(&jobs, &decisions, finished);
        let jobs: Vec<JobSummary> =
            results.into_iter().filter(|job| job.state != JobState::LeftOut).collect();
        let interrupted = self.cancelled.load(Ordering::Relaxed);
        let outcome = PieceOutcome {
            exit_code: result::exit_code(&jobs, interrupted),
            totals: Totals::of(&jobs),
            jobs,
            damaged: run.history.damaged_lines(),
            error,
        };
        if outcome.error.is_some() {
            return Ok(outcome);
        }
        let seconds = started.elapsed().as_secs_f64();
        self.listener.on_event(&Event::PieceDone {
            piece: number,
            jobs: outcome.jobs.len(),
            totals: &outcome.totals,
            seconds,
            exit_code: outcome.exit_code,
            failures: outcome.jobs.iter().filter_map(piece_failure).take(MAX_EVENT_FAILURES).collect(),
        });
        Ok(outcome)
    }

    /// Returns the outcome of a job that failed in this worker. Another worker may have received
    /// the same job, because this worker was slow or presumed dead. If the keys match, the output
    /// of the other worker is the same as the output that this worker would have written.
    fn elsewhere(
        &self,
        folder: &PlanFolder,
        own: &str,
        queued: &QueuedJob<'_>,
        failure: JobFailure,
    ) -> JobOutcome {
        let Some(planned) = queued.planned.filter(|_| !self.cancelled.load(Ordering::Relaxed)) else {
            return JobOutcome::Failed(failure);
        };
        let session = self.registry.session();
        let is_same = |key: &Option<String>| key.as_ref() == Some(&planned.key);
        if let Ok(history) = Journal::read_piece(folder, None, session)
            && let Decision::Unchanged(commit) = decide(queued.job, &history, self.registry, true)
            && is_same(&commit.key)
        {
            let summary = Box::new(JobSummary { state: JobState::Done, ..commit.made.summary.clone() });
            return JobOutcome::Done { summary, files: Vec::new(), outputs: Vec::new() };
        }
        let output = queued.job.output();
        let in_the_way = failure.exit_code == Some(i32::from(USAGE));
        let others = Journal::read_piece(folder, Some(own), session).unwrap_or_default();
        let mut commits = others.of(output).into_iter().flat_map(|known| known.commits());
        match commits.any(|commit| in_the_way && !commit.done && is_same(&commit.key)) {
            true => JobOutcome::Failed(JobFailure::of(
                &Error::transient("another worker is committing this output").file(output),
            )),
            false => JobOutcome::Failed(failure),
        }
    }
}

/// Splits a piece into its jobs, the plan's entries for the jobs, and the results of schema scans.
fn split_piece(planned: Vec<PlannedJob>) -> (Vec<Job>, Vec<PlannedWork>, DatasetSchemas) {
    let (mut jobs, mut work, mut schemas) = (Vec::new(), Vec::new(), DatasetSchemas::default());
    for (index, planned) in planned.into_iter().enumerate() {
        schemas.failures.extend(planned.failure.map(|failure| (index, failure)));
        schemas.refused.extend(planned.refused.map(|failure| (index, failure)));
        if !planned.scanned.is_empty() {
            schemas.scanned.insert(index, planned.scanned);
        }
        jobs.push(planned.job);
        work.push(planned.work);
    }
    (jobs, work, schemas)
}

fn piece_failure(job: &JobSummary) -> Option<PieceFailure<'_>> {
    let failure = job.failure.as_ref()?;
    Some(PieceFailure {
        name: &job.name,
        output: &job.output,
        message: failure.to_string(),
        exit_code: failure.exit_code,
        passing: failure.is_transient(),
    })
}

/// Returns a name such as `host-1234-5f3a`. The random part is necessary because several machines
/// may have the same name, and several processes may have the same ID.
fn worker_name() -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let host: String = this_host().chars().take(40).map(plain).collect();
    let id = std::process::id();
    let seed = format!("{}{id}{:?}", boot_id(), std::time::SystemTime::now());
    format!("{host}-{id}-{}", &blake3::hash(seed.as_bytes()).to_hex()[..8])
}
