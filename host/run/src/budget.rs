//! The budget that all jobs of a run share: processes, threads, memory and disk bandwidth.
//!
//! Processes are counted in slots. A small job occupies one slot, and a big job occupies several.

use crate::platform::available_memory;
use serde::{Deserialize, Serialize};

/// Jobs with fewer input bytes than this are small. Small jobs use little CPU time and mostly wait
/// for disk syncs.
const SMALL: u64 = 16 << 20;
/// Number of small jobs that may run instead of one big job.
const SMALL_JOBS: usize = 8;
/// Minimum memory limit of a process. This minimum applies even if the machine has less memory.
const MIN_LIMIT: u64 = 512 << 20;

/// The resources that all jobs of a run share.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Maximum number of concurrent jobs.
    pub jobs: usize,
    /// Whether several small jobs may run instead of a big job. False if the user specified the
    /// number of jobs.
    packs: bool,
    /// Number of threads that copy data.
    pub threads: usize,
    /// Total size of buffers in bytes.
    pub memory: u64,
    /// Disk bandwidth in bytes per second.
    pub rate: Option<u64>,
}

/// The part of the budget that is assigned to one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    pub(crate) threads: usize,
    /// Size of the job's buffers in bytes.
    pub(crate) memory: u64,
    /// Disk bandwidth in bytes per second.
    pub(crate) rate: Option<u64>,
}

/// The other jobs that are running or waiting, as seen by one job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OtherJobs {
    pub(crate) jobs: usize,
    /// Number of slots that the other jobs occupy.
    pub(crate) places: usize,
}

impl Budget {
    /// Creates a budget. `jobs` is the number of concurrent jobs, if the user specified it. The
    /// default is one job per thread.
    #[must_use]
    pub fn new(jobs: Option<usize>, threads: usize, memory: u64, rate: Option<u64>) -> Self {
        Self {
            jobs: jobs.unwrap_or(threads).max(1),
            packs: jobs.is_none(),
            threads: threads.max(1),
            memory,
            rate,
        }
    }

    /// Creates the budget for a worker of a plan. By default, the worker runs one job per thread,
    /// or fewer if `memory` is too small for the memory shares that the plan specifies. The default
    /// for `memory` is a quarter of the free memory. `planned` is the memory that the plan
    /// specifies for a worker.
    #[must_use]
    pub fn of_worker(jobs: Option<usize>, threads: usize, memory: Option<u64>, planned: u64) -> Self {
        let memory = memory.unwrap_or_else(|| available_memory().unwrap_or(planned) / 4);
        let within = memory / Self::planned_share(u64::MAX, planned).max(1);
        let jobs = jobs.unwrap_or(threads).min(usize::try_from(within).unwrap_or(usize::MAX));
        Self { jobs: jobs.max(1), packs: true, threads: threads.max(1), memory, rate: None }
    }

    /// Returns the buffer size of a planned job that has this many bytes of input. The size is the
    /// same on every machine and does not depend on other jobs.
    pub(crate) fn planned_share(bytes: u64, memory: u64) -> u64 {
        let big = memory / 2;
        if bytes >= SMALL { big } else { (big / SMALL_JOBS as u64).max(1 << 20) }
    }

    /// Returns the total number of slots.
    pub(crate) fn places(&self) -> usize {
        if self.packs { self.jobs * SMALL_JOBS } else { self.jobs }
    }

    /// Returns the number of slots that a job with this many bytes of input occupies.
    pub(crate) fn places_of(&self, bytes: u64) -> usize {
        if self.packs && bytes >= SMALL { SMALL_JOBS } else { 1 }
    }

    /// Returns the share of a job that occupies `places` slots while the other jobs run or wait.
    pub(crate) fn share(&self, places: usize, others: OtherJobs) -> Share {
        let most = self.places() / places;
        let beside = most.min(others.jobs + 1).max(1);
        let threads = if self.packs && places == 1 { 1 } else { (self.threads / beside).max(1) };
        // Memory and bandwidth are divided so that the shares of concurrent jobs never exceed the
        // total.
        let most = most.max(1) as u64;
        let memory = (self.memory / most).max(1 << 20);
        // No jobs are added after the start of a run. If the running and waiting jobs do not need
        // all slots, the bandwidth of the unused slots is distributed among these jobs.
        let (own, wanted) = (places as u64, self.places().min(places + others.places) as u64);
        let rate = self.rate.map(|rate| (rate.saturating_mul(own) / wanted.max(1)).max(1));
        Share { threads, memory, rate }
    }

    /// Returns the default memory limit of a job's process, which is the job's share of the
    /// machine's memory.
    pub(crate) fn limit(&self, places: usize) -> u64 {
        let most = (self.places() / places).max(1) as u64;
        (available_memory().unwrap_or(u64::MAX / 2) / 10 * 8 / most).max(MIN_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_worker_of_a_plan_does_what_there_is_memory_for() {
        let planned = 256 << 20;
        let jobs = |threads, memory| Budget::of_worker(None, threads, memory, planned).jobs;
        assert_eq!((jobs(64, Some(1 << 30)), jobs(4, Some(1 << 30)), jobs(4, Some(1 << 20))), (8, 4, 1));
        assert_eq!(
            (Budget::planned_share(1, planned), Budget::planned_share(SMALL, planned)),
            (16 << 20, 128 << 20)
        );
    }

    #[test]
    fn nothing_is_promised_twice() {
        let budget = Budget::new(None, 4, 256 << 20, Some(800));
        let (small, big) = (budget.places_of(1000), budget.places_of(1 << 30));
        assert_eq!((budget.places(), small, big), (32, 1, 8));
        let share = |threads, memory: u64, rate| Share { threads, memory: memory << 20, rate };
        let beside = |jobs, places| OtherJobs { jobs, places };
        assert_eq!(budget.share(small, beside(100, 100)), share(1, 8, Some(25)));
        assert_eq!(budget.share(big, beside(100, 100)), share(1, 64, Some(200)));
        // The last job is assigned all threads.
        assert_eq!(budget.share(big, beside(0, 0)).threads, 4);
        let two = Budget::new(Some(2), 4, 256 << 20, None);
        assert_eq!((two.places(), two.places_of(1), two.share(1, beside(9, 9))), (2, 1, share(2, 128, None)));
    }

    #[test]
    fn who_runs_alone_has_the_whole_rate_and_together_it_is_never_more() {
        let budget = Budget::new(None, 4, 256 << 20, Some(960));
        let rate =
            |places, jobs, others| budget.share(places, OtherJobs { jobs, places: others }).rate.unwrap();
        assert_eq!((rate(1, 0, 0), rate(8, 0, 0)), (960, 960));
        // There are two big jobs and eight small jobs. Each share takes all other jobs into
        // account.
        assert!(2 * rate(8, 9, 16) + 8 * rate(1, 9, 23) <= 960);
        // The bandwidth of a small job next to two other small jobs, and next to one.
        assert_eq!((rate(1, 2, 2), rate(1, 1, 1)), (320, 480));
    }
}
