//! The pool runs tasks in processes under one budget: the biggest first, passing faults again later.

use super::budget::Budget;
use super::event::{Event, Listener};
use super::found::Placed;
use super::job::Job;
use super::journal::Journal;
use super::offspring::{Launch, Offspring, Outcome, Supervision};
use super::protocol::Task;
use super::summary::Failure;
use crate::exit::TRANSIENT;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting thread looks whether the run was cancelled.
const TICK: Duration = Duration::from_millis(100);

/// A job that must run.
pub(super) struct Queued<'a> {
    /// Its place in the manifest.
    pub(super) index: usize,
    pub(super) job: &'a Job,
    /// Bytes of its input.
    pub(super) bytes: u64,
    /// What of its output is ours.
    pub(super) owned: Vec<PathBuf>,
    /// What its unit's files were when they were looked at.
    pub(super) scanned: Vec<Placed>,
    /// Why it must not be done.
    pub(super) refused: Option<Failure>,
}

impl<'a> Queued<'a> {
    /// A job of which nothing is known.
    pub(super) fn new(index: usize, job: &'a Job) -> Self {
        Self { index, job, bytes: job.bytes(), owned: Vec::new(), scanned: Vec::new(), refused: None }
    }
}

/// What all tasks have in common.
pub(super) struct Pool<'a> {
    pub(super) budget: &'a Budget,
    pub(super) launch: &'a Launch,
    /// Whether units are looked at, and no job is done.
    pub(super) scans: bool,
    /// None where nothing is committed.
    pub(super) journal: Option<&'a Journal>,
    pub(super) listener: &'a dyn Listener,
    pub(super) cancelled: &'a AtomicBool,
    pub(super) fail_fast: bool,
}

/// How a job went.
pub(super) struct Went {
    pub(super) index: usize,
    pub(super) outcome: Outcome,
    pub(super) attempts: u32,
    pub(super) began: Option<Instant>,
    pub(super) ended: Instant,
}

struct State<'a> {
    waiting: Vec<Waiting<'a>>,
    free: usize,
    running: usize,
    stopped: bool,
}

struct Waiting<'a> {
    queued: Queued<'a>,
    attempt: u32,
    not_before: Option<Instant>,
    began: Option<Instant>,
}

impl Pool<'_> {
    /// Runs all of them; `then` is told how each went, as soon as it has.
    pub(super) fn run(&self, mut jobs: Vec<Queued<'_>>, then: &(dyn Fn(&Job, Went) + Sync)) {
        // Taken from the end.
        jobs.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(b.index.cmp(&a.index)));
        let threads = self.budget.places().min(jobs.len());
        let waiting = |queued| Waiting { queued, attempt: 1, not_before: None, began: None };
        let state = Mutex::new(State {
            waiting: jobs.into_iter().map(waiting).collect(),
            free: self.budget.places(),
            running: 0,
            stopped: false,
        });
        let changed = Condvar::new();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.serve(&state, &changed, then));
            }
        });
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        for left in state.waiting {
            let (index, attempts, began) = (left.queued.index, left.attempt - 1, left.began);
            then(
                left.queued.job,
                Went { index, outcome: Outcome::Cancelled, attempts, began, ended: Instant::now() },
            );
        }
    }

    /// One thread, with a process of its own.
    fn serve<'q>(&self, state: &Mutex<State<'q>>, changed: &Condvar, then: &(dyn Fn(&Job, Went) + Sync)) {
        let mut offspring: Option<Offspring> = None;
        while let Some((mut waiting, places, others)) = self.next(state, changed) {
            let Waiting { queued: Queued { job, index, bytes, .. }, attempt, .. } = waiting;
            let began = *waiting.began.get_or_insert_with(Instant::now);
            self.listener.hear(&Event::JobBegan { job: &job.name, attempt });
            let outcome = self.attempt(&mut offspring, &waiting.queued, places, others, bytes);
            let again = match &outcome {
                Outcome::Failed(failure) if is_passing(failure) && attempt <= job.care.retries => {
                    let wait = job.care.retry_wait.saturating_mul(4_u32.saturating_pow(attempt - 1));
                    self.listener.hear(&Event::JobWaits {
                        job: &job.name,
                        seconds: wait.as_secs_f64(),
                        failure,
                    });
                    Some(Instant::now() + wait)
                }
                _ => None,
            };
            let failed = again.is_none() && matches!(outcome, Outcome::Failed(_));
            let mut locked = lock(state);
            locked.free += places;
            locked.running -= 1;
            locked.stopped |= failed && self.fail_fast;
            if again.is_some() {
                waiting.attempt += 1;
                waiting.not_before = again;
                // Behind those that have not been tried.
                locked.waiting.insert(0, waiting);
            }
            drop(locked);
            changed.notify_all();
            if again.is_none() {
                then(
                    job,
                    Went { index, outcome, attempts: attempt, began: Some(began), ended: Instant::now() },
                );
            }
        }
    }

    fn attempt(
        &self,
        offspring: &mut Option<Offspring>,
        queued: &Queued<'_>,
        places: usize,
        others: usize,
        bytes: u64,
    ) -> Outcome {
        let own = match offspring.take().map_or_else(|| Offspring::start(self.launch), Ok) {
            Ok(own) => own,
            Err(error) => return Outcome::Failed(Failure::of(&error, crate::exit::exit_code(error.kind()))),
        };
        let (threads, memory, rate) = self.budget.share(places, others);
        let care = &queued.job.care;
        let task = Task {
            job: queued.job.clone(),
            scan: self.scans,
            scanned: queued.scanned.clone(),
            refused: queued.refused.clone(),
            dry_run: self.journal.is_none(),
            owned: queued.owned.clone(),
            threads,
            memory,
            limit: care.memory.unwrap_or_else(|| self.budget.limit(places)),
            rate,
        };
        let supervision = Supervision {
            journal: self.journal,
            listener: self.listener,
            cancelled: self.cancelled,
            timeout: care.timeout.of(bytes),
        };
        let (outcome, again) = own.perform(&task, &supervision);
        *offspring = again;
        outcome
    }

    /// The next job that may begin, the places that it takes, and how many others want as much. None when
    /// there is nothing more for this thread.
    fn next<'q>(&self, state: &Mutex<State<'q>>, changed: &Condvar) -> Option<(Waiting<'q>, usize, usize)> {
        let mut locked = lock(state);
        loop {
            if locked.stopped || self.cancelled.load(Ordering::Relaxed) {
                return None;
            }
            let now = Instant::now();
            let is_due = |waiting: &Waiting<'_>| waiting.not_before.is_none_or(|time| time <= now);
            // Nobody overtakes: a big job would never find enough places.
            if let Some(at) = locked.waiting.iter().rposition(is_due) {
                let places = self.budget.places_of(locked.waiting[at].queued.bytes);
                if places <= locked.free {
                    let next = locked.waiting.remove(at);
                    locked.free -= places;
                    let others = locked.running + locked.waiting.len();
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

fn lock<'a, 'q>(state: &'a Mutex<State<'q>>) -> MutexGuard<'a, State<'q>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_passing(failure: &Failure) -> bool {
    failure.exit_code == Some(i32::from(TRANSIENT))
}
