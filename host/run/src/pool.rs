//! Runs jobs in worker processes, which share one budget. The biggest jobs run first. Jobs with
//! temporary failures are retried later.

use crate::budget::{Budget, OtherJobs};
use crate::events::{Event, EventListener};
use crate::job::{Job, PlannedWork};
use crate::journal::{Journal, StampedFile};
use crate::report::JobFailure;
use crate::worker::{IdleWorkers, JobOutcome, Supervision, WorkerCommand, WorkerProcess, WorkerTask};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tensorferry::Session;

/// Interval at which a waiting thread checks whether the run has been cancelled.
const TICK: Duration = Duration::from_millis(100);

/// The settings that all jobs of a pool share.
#[derive(Clone, Copy)]
pub(crate) struct WorkerPool<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) worker: &'a WorkerCommand,
    /// Whether file groups are only scanned and not converted.
    pub(crate) scan_only: bool,
    /// The journal of the run, or `None` if no output is committed.
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) listener: &'a dyn EventListener,
    pub(crate) cancelled: &'a AtomicBool,
    pub(crate) fail_fast: bool,
    /// The pool of idle processes. Each thread takes a process from this pool and returns it later.
    /// If this field is `None`, each thread starts its own process.
    pub(crate) idle: Option<&'a IdleWorkers>,
    /// For a plan, a function that determines the outcome of a job that failed in this worker. A
    /// different worker may have completed the job.
    pub(crate) elsewhere: Option<&'a FailureFallback<'a>>,
}

/// A function that returns the outcome of a job that has failed in this worker.
pub(crate) type FailureFallback<'a> = dyn Fn(&QueuedJob<'_>, JobFailure) -> JobOutcome + Sync + 'a;

/// A job that must run.
pub(crate) struct QueuedJob<'a> {
    /// The job's index in the manifest.
    pub(crate) index: usize,
    pub(crate) job: &'a Job,
    /// Size of the job's input in bytes.
    pub(crate) bytes: u64,
    /// Existing files that the job's output may replace.
    pub(crate) owned: Vec<PathBuf>,
    /// For a plan, the state of the files in `owned` when ferry decided that these files may be
    /// replaced. If the files have changed since then, a different worker has already replaced
    /// them.
    pub(crate) seen: Vec<StampedFile>,
    /// The files that earlier runs wrote for the job's output, each with its state at that time.
    pub(crate) earlier: Vec<StampedFile>,
    /// The state of the file group's files at the time of the scan.
    pub(crate) scanned: Vec<StampedFile>,
    /// The reason why the job must not produce an output.
    pub(crate) refused: Option<JobFailure>,
    /// The plan's entry for the job.
    pub(crate) planned: Option<&'a PlannedWork>,
}

impl<'a> QueuedJob<'a> {
    /// Creates an entry for a job that is not part of a plan.
    pub(crate) fn new(index: usize, job: &'a Job, session: &Session) -> Self {
        Self::with_bytes(index, job, job.input_stamp(session).bytes)
    }

    /// Creates an entry for a planned job.
    pub(crate) fn planned(index: usize, job: &'a Job, planned: &'a PlannedWork) -> Self {
        Self { planned: Some(planned), ..Self::with_bytes(index, job, planned.bytes) }
    }

    fn with_bytes(index: usize, job: &'a Job, bytes: u64) -> Self {
        Self {
            index,
            job,
            bytes,
            owned: Vec::new(),
            seen: Vec::new(),
            earlier: Vec::new(),
            scanned: Vec::new(),
            refused: None,
            planned: None,
        }
    }
}

/// A job that was completed, failed or cancelled, after all of its attempts.
pub(crate) struct FinishedJob {
    pub(crate) index: usize,
    pub(crate) outcome: JobOutcome,
    pub(crate) attempts: u32,
    pub(crate) began: Option<Instant>,
    pub(crate) ended: Instant,
}

/// A function that receives each job when it is finished.
type OnFinished<'a> = dyn Fn(&Job, FinishedJob) + Sync + 'a;

struct Queue<'a> {
    waiting: Vec<PendingJob<'a>>,
    free_places: usize,
    running: usize,
    stopped: bool,
}

struct PendingJob<'a> {
    queued: QueuedJob<'a>,
    attempt: u32,
    not_before: Option<Instant>,
    began: Option<Instant>,
}

impl WorkerPool<'_> {
    pub(crate) fn run(&self, mut jobs: Vec<QueuedJob<'_>>, on_finished: &OnFinished<'_>) {
        // The biggest jobs are at the end of the list, because jobs are taken from the end.
        jobs.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(b.index.cmp(&a.index)));
        let threads = self.budget.places().min(jobs.len());
        let pending = |queued| PendingJob { queued, attempt: 1, not_before: None, began: None };
        let queue = Mutex::new(Queue {
            waiting: jobs.into_iter().map(pending).collect(),
            free_places: self.budget.places(),
            running: 0,
            stopped: false,
        });
        let changed = Condvar::new();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.work(&queue, &changed, on_finished));
            }
        });
        let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        for left in queue.waiting {
            on_finished(left.queued.job, left.finished(left.attempt - 1, JobOutcome::Cancelled));
        }
    }

    /// Runs the loop of one thread of the pool, which uses its own worker process.
    fn work<'q>(&self, queue: &Mutex<Queue<'q>>, changed: &Condvar, on_finished: &OnFinished<'_>) {
        let mut process: Option<WorkerProcess> = None;
        self.work_with(&mut process, queue, changed, on_finished);
        if let (Some(idle), Some(process)) = (self.idle, process) {
            idle.give_back(process);
        }
    }

    fn work_with<'q>(
        &self,
        process: &mut Option<WorkerProcess>,
        queue: &Mutex<Queue<'q>>,
        changed: &Condvar,
        on_finished: &OnFinished<'_>,
    ) {
        while let Some((mut pending, places, others)) = self.next(queue, changed) {
            let (job, attempt) = (pending.queued.job, pending.attempt);
            pending.began.get_or_insert_with(Instant::now);
            self.listener.on_event(&Event::JobBegan { name: &job.name, attempt });
            let outcome = self.attempt(process, &pending.queued, places, others);
            let retry_at = match &outcome {
                JobOutcome::Failed(failure) if failure.is_transient() && attempt <= job.policy.retries => {
                    let wait = job.policy.retry_wait.saturating_mul(4_u32.saturating_pow(attempt - 1));
                    let seconds = wait.as_secs_f64();
                    self.listener.on_event(&Event::JobWaits { name: &job.name, seconds, failure });
                    Some(Instant::now() + wait)
                }
                _ => None,
            };
            let mut locked = lock(queue);
            locked.free_places += places;
            locked.running -= 1;
            let finished = if retry_at.is_some() {
                pending.attempt += 1;
                pending.not_before = retry_at;
                // The job is retried after all jobs that have not been tried yet.
                locked.waiting.insert(0, pending);
                None
            } else {
                locked.stopped |= self.fail_fast && matches!(outcome, JobOutcome::Failed(_));
                // If the journal cannot be written, no other staged output can be committed.
                locked.stopped |= self.journal.is_some_and(Journal::has_failed);
                Some(pending.finished(attempt, outcome))
            };
            drop(locked);
            changed.notify_all();
            if let Some(finished) = finished {
                on_finished(job, finished);
            }
        }
    }

    fn attempt(
        &self,
        process: &mut Option<WorkerProcess>,
        queued: &QueuedJob<'_>,
        places: usize,
        others: OtherJobs,
    ) -> JobOutcome {
        let start = || self.idle.map_or_else(|| WorkerProcess::start(self.worker), IdleWorkers::take);
        let own = match process.take().map_or_else(start, Ok) {
            Ok(own) => own,
            Err(error) => return JobOutcome::Failed(JobFailure::of(&error)),
        };
        let policy = &queued.job.policy;
        let mut share = self.budget.share(places, others);
        if let Some(planned) = queued.planned {
            share.memory = planned.memory;
        }
        let task = WorkerTask {
            job: queued.job.clone(),
            scan_only: self.scan_only,
            scanned: queued.scanned.clone(),
            refused: queued.refused.clone(),
            dry_run: self.journal.is_none(),
            owned: queued.owned.clone(),
            seen: queued.seen.clone(),
            earlier: queued.earlier.clone(),
            share,
            limit: policy.memory.unwrap_or_else(|| self.budget.limit(places)),
        };
        let supervision = Supervision {
            journal: self.journal,
            listener: self.listener,
            cancelled: self.cancelled,
            timeout: policy.timeout.for_bytes(queued.bytes),
            key: queued.planned.map(|planned| &*planned.key),
        };
        let (outcome, again) = own.perform(&task, &supervision);
        *process = again;
        match (outcome, self.elsewhere) {
            (JobOutcome::Failed(failure), Some(elsewhere)) => elsewhere(queued, failure),
            (outcome, _) => outcome,
        }
    }

    /// Returns the other running or waiting jobs, from the viewpoint of a job that has just been
    /// assigned `own` slots.
    fn others(&self, queue: &Queue<'_>, own: usize) -> OtherJobs {
        let all = self.budget.places();
        let running = all.saturating_sub(queue.free_places + own);
        // Each job needs at least one slot, so only as many waiting jobs as there are slots need to
        // be examined.
        let waiting = queue.waiting.iter().take(all).map(|other| self.budget.places_of(other.queued.bytes));
        OtherJobs { jobs: queue.running + queue.waiting.len(), places: running + waiting.sum::<usize>() }
    }

    /// Returns the next job that may begin, its number of slots, and the other jobs that are
    /// running or waiting. Returns `None` if this thread has no more work.
    fn next<'q>(
        &self,
        queue: &Mutex<Queue<'q>>,
        changed: &Condvar,
    ) -> Option<(PendingJob<'q>, usize, OtherJobs)> {
        let mut locked = lock(queue);
        loop {
            if locked.stopped || self.cancelled.load(Ordering::Relaxed) {
                return None;
            }
            let now = Instant::now();
            let is_due = |pending: &PendingJob<'_>| pending.not_before.is_none_or(|time| time <= now);
            // A smaller job must not start before the next job in the queue. Otherwise, a big job
            // might never find enough free slots.
            if let Some(at) = locked.waiting.iter().rposition(is_due) {
                let places = self.budget.places_of(locked.waiting[at].queued.bytes);
                if places <= locked.free_places {
                    let next = locked.waiting.remove(at);
                    locked.free_places -= places;
                    let others = self.others(&locked, places);
                    locked.running += 1;
                    return Some((next, places, others));
                }
            } else if locked.waiting.is_empty() && locked.running == 0 {
                return None;
            }
            locked = changed.wait_timeout(locked, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl PendingJob<'_> {
    fn finished(&self, attempts: u32, outcome: JobOutcome) -> FinishedJob {
        let Self { began, queued: QueuedJob { index, .. }, .. } = self;
        FinishedJob { index: *index, outcome, attempts, began: *began, ended: Instant::now() }
    }
}

fn lock<'a, 'q>(queue: &'a Mutex<Queue<'q>>) -> MutexGuard<'a, Queue<'q>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
