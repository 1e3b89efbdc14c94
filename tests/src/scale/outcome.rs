//! An outcome is what became of a simulated run: when it ended, where the nodes' time went, what the others had to bear.

use super::settings::{SECOND, Settings, Way};

/// Where the time of all nodes went, from the start to the end of the run. Together this is the run's time for each node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Jobs whose output became visible, as long as a node takes for them that is not slow.
    pub useful: u64,
    /// What slow nodes took longer.
    pub slow: u64,
    /// Jobs that were done or begun, and whose output another node made visible.
    pub lost: u64,
    /// Whether outputs are there which a journal does not know of.
    pub looking: u64,
    /// Waiting for the store.
    pub store: u64,
    /// Waiting for a piece: for the driver, or for a lease.
    pub asking: u64,
    /// No piece is left that nobody else has.
    pub idle: u64,
    /// Dead or taken away, until another node is there.
    pub down: u64,
    /// Frozen.
    pub frozen: u64,
}

impl Times {
    /// All of it.
    pub fn sum(&self) -> u64 {
        let Self { useful, slow, lost, looking, store, asking, idle, down, frozen } = *self;
        [useful, slow, lost, looking, store, asking, idle, down, frozen].iter().sum()
    }
}

/// What most of the nodes' time was lost by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The store takes no more requests.
    Store,
    /// The driver does not answer, or leases are waited for.
    Driver,
    /// Some nodes still work when others have nothing left to do.
    Pieces,
    /// Nodes are slow, die, freeze and are taken away.
    Nodes,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Microseconds from the start until the last output was visible.
    pub makespan: u64,
    /// The same with nodes to which nothing happens, which never wait, and among which the work is divided evenly.
    pub ideal: u64,
    /// Nodes.
    pub workers: u64,
    /// Where their time went.
    pub times: Times,
    /// How often each job became visible, in the order of the plan.
    pub visible: Vec<u8>,
    /// Commits that were refused, since the output was there.
    pub refused: u64,
    /// Jobs that a journal did not know of, and whose outputs were found.
    pub found: u64,
    /// Nodes that died,
    pub crashes: u64,
    /// that were taken away,
    pub preemptions: u64,
    /// that froze,
    pub freezes: u64,
    /// and of these, those that woke when another node had their piece.
    pub zombies: u64,
    /// Requests that write outputs.
    pub puts: u64,
    /// Operations in the plan's folder: lines of journals, their syncs, what is done with leases.
    pub folder_operations: u64,
    /// Bytes of all journals.
    pub journal: u64,
    /// Calls that the driver made.
    pub calls: u64,
    /// What they took it.
    pub driver_busy: u64,
}

impl Outcome {
    /// Of a run that begins.
    pub(super) fn new(settings: &Settings, ideal: u64) -> Self {
        let jobs = usize::try_from(settings.jobs).expect("it fits the memory");
        Self {
            makespan: 0,
            ideal,
            workers: settings.workers,
            times: Times::default(),
            visible: vec![0; jobs],
            refused: 0,
            found: 0,
            crashes: 0,
            preemptions: 0,
            freezes: 0,
            zombies: 0,
            puts: 0,
            folder_operations: 0,
            journal: 0,
            calls: 0,
            driver_busy: 0,
        }
    }

    /// What of the nodes' time went into outputs that are there, in percent.
    pub fn efficiency(&self) -> f64 {
        percent(self.times.useful, self.times.sum())
    }

    /// Work that was done twice or was lost, in percent of what was needed.
    pub fn lost(&self) -> f64 {
        percent(self.times.lost, self.times.useful)
    }

    /// The driver's time, in percent.
    pub fn driver(&self) -> f64 {
        percent(self.driver_busy, self.makespan)
    }

    /// Requests a second that write outputs.
    pub fn puts_per_second(&self) -> u64 {
        per_second(self.puts, self.makespan)
    }

    /// Operations a second in the plan's folder.
    pub fn folder_operations_per_second(&self) -> u64 {
        per_second(self.folder_operations, self.makespan)
    }

    /// What most of the time was lost by.
    pub fn limit(&self) -> Limit {
        let Times { slow, lost, looking, store, asking, idle, down, frozen, .. } = self.times;
        let nodes = slow + lost + looking + down + frozen;
        let limits =
            [(store, Limit::Store), (asking, Limit::Driver), (idle, Limit::Pieces), (nodes, Limit::Nodes)];
        limits.into_iter().max_by_key(|(time, _)| *time).expect("there are four").1
    }

    /// With what goes on all the time, beside what was counted: questions for the progress, renewals.
    pub(super) fn with_the_steady(mut self, settings: &Settings) -> Self {
        match settings.way {
            Way::Driver => {
                self.calls += settings.asked_a_second() * (self.makespan / SECOND);
                self.driver_busy = self.calls * settings.call_time;
            }
            Way::Leases => {
                self.folder_operations += self.workers * (self.makespan / settings.renew_every);
            }
            Way::Shards => {}
        }
        self
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn per_second(count: u64, time: u64) -> u64 {
    count * SECOND / time.max(1)
}
