//! Settings are the run that is simulated: its work, its nodes and what befalls them, and what the others can bear.

/// How pieces come to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `--shard I/N`: each worker has its own ones from the start, and nobody else does them.
    Shards,
    /// `ferry work --pull`: each takes the next one that nobody has, by a lease.
    Leases,
    /// A driver hands them out, as with `--on ray`.
    Driver,
}

/// A run. Times are microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where chance begins.
    pub seed: u64,
    /// How pieces come to workers.
    pub way: Way,
    /// Models.
    pub jobs: u64,
    /// Jobs of a piece.
    pub piece_jobs: u64,
    /// Bytes of a model, on average; one in a hundred has ten times as many.
    pub mean_bytes: u64,
    /// Nodes, each with one worker.
    pub workers: u64,

    /// What a node copies in a second, from the store to the store.
    pub bytes_per_second: u64,
    /// What a job takes beside its bytes.
    pub job_time: u64,
    /// Nodes that are slower than the others, in a thousand.
    pub slow_nodes: u64,
    /// How many times as long everything takes them.
    pub slow_factor: u64,

    /// A node dies once in this time, on average.
    pub crash_every: u64,
    /// It is taken away, with a notice: a spot instance.
    pub preempted_every: u64,
    /// It freezes,
    pub frozen_every: u64,
    /// for this time on average.
    pub frozen_for: u64,
    /// Until another node stands in the place of one that died or was taken away.
    pub replaced_after: u64,
    /// Until a node that says nothing is held to be dead: the lease, or the driver's or the scheduler's time.
    pub silent_for: u64,

    /// Requests that write, a second and prefix.
    pub prefix_puts: u64,
    /// Prefixes that the outputs are spread over.
    pub prefixes: u64,
    /// What of an output is sent by one request.
    pub part_bytes: u64,
    /// What it takes to ask whether an output is there.
    pub look_time: u64,

    /// What the journal says of a job.
    pub journal_bytes: u64,
    /// How often a worker writes what it has of it to where others find it; 0: at once, as in a shared folder.
    pub journal_every: u64,

    /// What one call of a worker takes the driver.
    pub call_time: u64,
    /// How often a second it asks workers how far they are, all of them together; each is asked once a second at most.
    pub questions: u64,
    /// Pieces that a worker has at a time, of a driver: more than one only while there are enough for all workers.
    pub in_flight: u64,
    /// What it takes to claim a lease,
    pub claim_time: u64,
    /// to look whether a piece can be had, of each that others have,
    pub piece_look_time: u64,
    /// and how long one waits before it looks again, if there was none.
    pub poll_every: u64,
    /// How often a lease is renewed.
    pub renew_every: u64,
    /// Whether a worker that wakes stops when another one has its piece; otherwise both do what is left of it.
    pub zombies_stop: bool,
}

/// A second in microseconds.
pub(super) const SECOND: u64 = 1_000_000;
/// An hour in microseconds.
pub(super) const HOUR: u64 = 3600 * SECOND;

impl Settings {
    /// A million models of 1 GiB in ten thousand pieces, and a thousand nodes with a driver.
    pub fn petabyte() -> Self {
        Self {
            seed: 1,
            way: Way::Driver,
            jobs: 1_000_000,
            piece_jobs: 100,
            mean_bytes: 1 << 30,
            workers: 1000,
            bytes_per_second: 200_000_000,
            job_time: 5_000,
            slow_nodes: 10,
            slow_factor: 3,
            crash_every: 500 * HOUR,
            preempted_every: 24 * HOUR,
            frozen_every: 100 * HOUR,
            frozen_for: 300 * SECOND,
            replaced_after: 120 * SECOND,
            silent_for: 60 * SECOND,
            prefix_puts: 3500,
            prefixes: 1,
            part_bytes: 16 << 20,
            look_time: 30_000,
            journal_bytes: 1200,
            journal_every: 0,
            call_time: 1_100,
            questions: 200,
            in_flight: 2,
            claim_time: 5_000,
            piece_look_time: 1_000,
            poll_every: 5 * SECOND,
            renew_every: 10 * SECOND,
            zombies_stop: false,
        }
    }

    /// A million models of 10 MiB.
    pub fn small_models() -> Self {
        Self { mean_bytes: 10 << 20, ..Self::petabyte() }
    }

    /// Nothing ever happens to a node.
    #[must_use]
    pub fn without_faults(self) -> Self {
        let never = u64::MAX;
        Self { slow_nodes: 0, crash_every: never, preempted_every: never, frozen_every: never, ..self }
    }

    /// Everything befalls them so many times as often.
    #[must_use]
    pub fn with_more_faults(self, times: u64) -> Self {
        let [crash_every, preempted_every, frozen_every] =
            [self.crash_every, self.preempted_every, self.frozen_every].map(|every| every / times);
        Self { crash_every, preempted_every, frozen_every, ..self }
    }

    /// Sets one by its name; `false` if there is none of this name that is a number.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let place = match name {
            "seed" => &mut self.seed,
            "jobs" => &mut self.jobs,
            "piece_jobs" => &mut self.piece_jobs,
            "mean_bytes" => &mut self.mean_bytes,
            "workers" => &mut self.workers,
            "bytes_per_second" => &mut self.bytes_per_second,
            "job_time" => &mut self.job_time,
            "slow_nodes" => &mut self.slow_nodes,
            "slow_factor" => &mut self.slow_factor,
            "crash_every" => &mut self.crash_every,
            "preempted_every" => &mut self.preempted_every,
            "frozen_every" => &mut self.frozen_every,
            "frozen_for" => &mut self.frozen_for,
            "replaced_after" => &mut self.replaced_after,
            "silent_for" => &mut self.silent_for,
            "prefix_puts" => &mut self.prefix_puts,
            "prefixes" => &mut self.prefixes,
            "part_bytes" => &mut self.part_bytes,
            "look_time" => &mut self.look_time,
            "journal_bytes" => &mut self.journal_bytes,
            "journal_every" => &mut self.journal_every,
            "call_time" => &mut self.call_time,
            "questions" => &mut self.questions,
            "in_flight" => &mut self.in_flight,
            "claim_time" => &mut self.claim_time,
            "piece_look_time" => &mut self.piece_look_time,
            "poll_every" => &mut self.poll_every,
            "renew_every" => &mut self.renew_every,
            _ => return false,
        };
        *place = value;
        true
    }

    /// How many questions the driver asks in a second.
    pub(super) fn asked_a_second(&self) -> u64 {
        self.questions.min(self.workers)
    }

    /// Pieces of the plan.
    pub(super) fn pieces(&self) -> u64 {
        self.jobs.div_ceil(self.piece_jobs)
    }

    /// What a job takes a node that is not slow.
    pub(super) fn time_of(&self, bytes: u64) -> u64 {
        let copy = u128::from(bytes) * u128::from(SECOND) / u128::from(self.bytes_per_second);
        self.job_time + u64::try_from(copy).expect("a model takes less than centuries")
    }

    /// The requests that write an output: its parts, their begin and end, its receipt.
    pub(super) fn puts_of(&self, bytes: u64) -> u64 {
        match bytes.div_ceil(self.part_bytes) {
            0 | 1 => 2,
            parts => parts + 3,
        }
    }
}
