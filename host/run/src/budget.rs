//! A budget is what all jobs of a run share: processes, threads, memory, the disks' bandwidth.

use std::fs;

/// Jobs below this size take little of the processors and mostly wait for the disk's syncs.
const SMALL: u64 = 16 << 20;
/// So many small jobs take the place of one.
pub(super) const SMALL_JOBS: usize = 8;
/// A process is given at least so much, whatever there is.
const LEAST_LIMIT: u64 = 512 << 20;

/// What all jobs share.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Jobs at the same time.
    pub jobs: usize,
    /// Whether small jobs may be more at the same time: nobody said how many.
    pub packs: bool,
    /// Threads that copy.
    pub threads: usize,
    /// Bytes of buffers.
    pub memory: u64,
    /// Bytes a second.
    pub rate: Option<u64>,
}

impl Budget {
    /// `jobs`: what the user said; else one for each thread.
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

    /// The places that there are.
    pub(super) fn places(&self) -> usize {
        if self.packs { self.jobs * SMALL_JOBS } else { self.jobs }
    }

    /// How many of them a job with so many bytes of input takes.
    pub(super) fn places_of(&self, bytes: u64) -> usize {
        if self.packs && bytes >= SMALL { SMALL_JOBS } else { 1 }
    }

    /// Threads, bytes of buffers and bytes a second for a job that takes `places`, if `others` jobs of its
    /// size can run beside it.
    pub(super) fn share(&self, places: usize, others: usize) -> (usize, u64, Option<u64>) {
        let most = self.places() / places;
        let beside = most.min(others + 1).max(1);
        let threads = if self.packs && places == 1 { 1 } else { (self.threads / beside).max(1) };
        // Memory and bandwidth are never promised twice.
        let most = most.max(1) as u64;
        (threads, (self.memory / most).max(1 << 20), self.rate.map(|rate| (rate / most).max(1)))
    }

    /// What a job's process may allocate where the manifest does not say: its share of what the machine has.
    pub(super) fn limit(&self, places: usize) -> u64 {
        let most = (self.places() / places).max(1) as u64;
        (available().unwrap_or(u64::MAX / 2) / 10 * 8 / most).max(LEAST_LIMIT)
    }
}

/// The memory that could be used: of the machine, or of the control group that it is lent to.
fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? << 10;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    Some(group.map_or(machine, |group| group.min(machine)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_twice() {
        let budget = Budget::new(None, 4, 256 << 20, Some(800));
        let (small, big) = (budget.places_of(1000), budget.places_of(1 << 30));
        assert_eq!((budget.places(), small, big), (32, 1, 8));
        assert_eq!(budget.share(small, 100), (1, 8 << 20, Some(25)));
        assert_eq!(budget.share(big, 100), (1, 64 << 20, Some(200)));
        // The last one gets all threads.
        assert_eq!(budget.share(big, 0).0, 4);
        let two = Budget::new(Some(2), 4, 256 << 20, None);
        assert_eq!((two.places(), two.places_of(1), two.share(1, 9)), (2, 1, (2, 128 << 20, None)));
    }
}
