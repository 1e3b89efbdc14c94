//! A cluster does a plan: what happens to its nodes, one event after the other.

mod hand_out;

use super::chance::Chance;
use super::node::{Node, State, Step};
use super::outcome::Outcome;
use super::settings::{HOUR, SECOND, Settings, Way};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// An output that nobody sees yet.
const NEVER: u64 = u64::MAX;

/// Simulates a run until every output is visible. Panics where some never are.
pub fn simulate(settings: &Settings) -> Outcome {
    let mut cluster = Cluster::new(settings);
    (0..cluster.nodes.len()).for_each(|node| cluster.joins(node));
    while cluster.left > 0 {
        let Reverse((now, _, event)) = cluster.events.pop().expect("a run that is not over goes on");
        // Nodes come and go for ever: a piece that is nobody's would not be missed.
        assert!(now / 1000 < cluster.outcome.ideal + HOUR, "{} jobs are never done", cluster.left);
        cluster.now = now;
        cluster.happens(event);
    }
    cluster.ends()
}

/// What happens, to the node of this number. Where a node has a younger epoch, it has died or frozen meanwhile, and what was
/// to happen does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A job is done, or an output was looked for.
    StepEnds { node: usize, epoch: u64 },
    /// The driver or the store has answered that a piece is its, or that there is none.
    Answered { node: usize, epoch: u64 },
    /// It dies.
    Crashes { node: usize },
    /// It is taken away.
    IsPreempted { node: usize },
    /// It stops, and knows nothing of it.
    Freezes { node: usize },
    /// It has been silent for too long.
    IsGivenUp { node: usize, epoch: u64 },
    /// It goes on.
    Wakes { node: usize },
    /// Another one stands in its place.
    IsReplaced { node: usize },
    /// Pieces of a node that is gone can be had again.
    Returned { pieces: Vec<usize> },
}

struct Cluster<'a> {
    settings: &'a Settings,
    chance: Chance,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Counts events: of two at the same time, the one that was foreseen first comes first.
    order: u64,
    bytes: Vec<u64>,
    visible_since: Vec<u64>,
    /// For each piece, until when the journals of those who are gone say what was done.
    saved_until: Vec<u64>,
    nodes: Vec<Node>,
    /// Pieces that nobody has.
    ready: VecDeque<usize>,
    /// Nodes that were told that there is none.
    idle: VecDeque<usize>,
    /// When the store and the driver have done what they were asked to.
    store_free: u64,
    driver_free: u64,
    left: u64,
    outcome: Outcome,
}

impl<'a> Cluster<'a> {
    fn new(settings: &'a Settings) -> Self {
        let mut chance = Chance::new(settings.seed);
        let bytes: Vec<u64> = (0..settings.jobs).map(|_| chance.skewed(settings.mean_bytes)).collect();
        let work: u64 = bytes.iter().map(|bytes| settings.time_of(*bytes)).sum();
        let pieces = size(settings.pieces());
        let count = size(settings.workers);
        let node = |number: usize| {
            Node::new(match settings.way {
                Way::Shards => (number..pieces).step_by(count).collect(),
                Way::Leases | Way::Driver => VecDeque::new(),
            })
        };
        Self {
            settings,
            chance,
            now: 0,
            events: BinaryHeap::new(),
            order: 0,
            visible_since: vec![NEVER; bytes.len()],
            saved_until: vec![NEVER; pieces],
            nodes: (0..count).map(node).collect(),
            ready: if settings.way == Way::Shards { VecDeque::new() } else { (0..pieces).collect() },
            idle: VecDeque::new(),
            store_free: 0,
            driver_free: 0,
            left: settings.jobs,
            outcome: Outcome::new(settings, work / settings.workers),
            bytes,
        }
    }

    fn happens(&mut self, event: Event) {
        let is_current = |node: usize, epoch: u64| self.nodes[node].epoch == epoch;
        match event {
            Event::StepEnds { node, epoch } if is_current(node, epoch) => self.step_ends(node),
            Event::Answered { node, epoch } if is_current(node, epoch) => self.answered(node),
            Event::IsGivenUp { node, epoch } if is_current(node, epoch) => self.is_given_up(node),
            // Who was to have the piece is gone.
            Event::Answered { .. } => self.offers(),
            Event::StepEnds { .. } | Event::IsGivenUp { .. } => {}
            Event::Crashes { node } => {
                self.outcome.crashes += 1;
                let saved = self.nodes[node].saved(self.now, self.settings.journal_every);
                self.is_gone(node, saved, self.settings.silent_for);
            }
            // It hears of it, and has written its journal when it goes.
            Event::IsPreempted { node } => {
                self.outcome.preemptions += 1;
                self.is_gone(node, self.now, 0);
            }
            Event::Freezes { node } => self.freezes(node),
            Event::Wakes { node } => self.wakes(node),
            Event::IsReplaced { node } => self.joins(node),
            Event::Returned { pieces } => self.returned(pieces),
        }
    }

    fn foresee(&mut self, after: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((self.now.saturating_add(after), self.order, event)));
    }

    /// A new node begins to ask for pieces.
    fn joins(&mut self, node: usize) {
        let is_slow = self.chance.happens(self.settings.slow_nodes);
        self.nodes[node].factor = if is_slow { self.settings.slow_factor } else { 1 };
        self.foresee_fault(node);
        let asks = if self.settings.way == Way::Driver { self.settings.in_flight } else { 1 };
        (0..asks).for_each(|_| self.asks(node));
    }

    /// One thing befalls a node first.
    fn foresee_fault(&mut self, node: usize) {
        let Settings { crash_every, preempted_every, frozen_every, .. } = *self.settings;
        let faults = [
            (crash_every, Event::Crashes { node }),
            (preempted_every, Event::IsPreempted { node }),
            (frozen_every, Event::Freezes { node }),
        ];
        let times = faults.map(|(every, event)| (self.chance.exponential(every), event));
        let (after, event) = times.into_iter().min().expect("there are three");
        self.foresee(after, event);
    }

    /// Begins its first piece.
    fn begins(&mut self, node: usize) {
        let first = self.nodes[node].pieces[0];
        let it = &mut self.nodes[node];
        it.began = self.now;
        it.knows_until = self.saved_until[first].min(self.now);
        it.next = first * size(self.settings.piece_jobs);
        self.steps(node);
    }

    /// Its next job of the piece, or its next piece.
    fn steps(&mut self, node: usize) {
        let Node { pieces, next, knows_until, factor, .. } = &self.nodes[node];
        let end = ((pieces[0] + 1) * size(self.settings.piece_jobs)).min(self.bytes.len());
        let is_known = |job: &usize| {
            let since = self.visible_since[*job];
            since != NEVER && since <= *knows_until
        };
        let Some(job) = (*next..end).find(|job| !is_known(job)) else {
            return self.ends_piece(node);
        };
        let is_look = self.visible_since[job] != NEVER;
        let nominal = if is_look { self.settings.look_time } else { self.settings.time_of(self.bytes[job]) };
        let full = nominal * factor;
        let ends = if is_look { self.now + full } else { self.stores(job).max(self.now + full) };
        self.nodes[node].next = job + 1;
        self.nodes[node].step = Some(Step { is_look, job, nominal, full, ends, spent: 0 });
        self.turns(node, State::Working);
        let epoch = self.nodes[node].epoch;
        self.foresee(ends - self.now, Event::StepEnds { node, epoch });
    }

    /// When the store has taken an output. It takes so many requests a second, in the order in which jobs begin.
    fn stores(&mut self, job: usize) -> u64 {
        let puts = self.settings.puts_of(self.bytes[job]);
        self.outcome.puts += puts;
        let a_second = self.settings.prefix_puts * self.settings.prefixes;
        self.store_free = self.store_free.max(self.now) + puts * SECOND / a_second;
        self.store_free
    }

    fn step_ends(&mut self, node: usize) {
        let elapsed = self.nodes[node].elapsed(self.now);
        let Step { is_look, job, nominal, full, .. } =
            self.nodes[node].step.take().expect("a step has ended");
        let Outcome { times, visible, refused, found, journal, folder_operations, .. } = &mut self.outcome;
        if is_look {
            times.looking += elapsed;
            *found += 1;
        } else if self.visible_since[job] == NEVER {
            self.visible_since[job] = self.now;
            self.left -= 1;
            visible[job] += 1;
            times.useful += nominal;
            times.slow += full - nominal;
            times.store += elapsed - full;
        } else {
            // What a commit that is exclusive says: it exists.
            times.lost += elapsed;
            *refused += 1;
        }
        *journal += self.settings.journal_bytes;
        // Two lines, and a sync before the output is visible.
        *folder_operations += 3;
        if self.nodes[node].is_zombie && self.settings.zombies_stop {
            return self.ends_piece(node);
        }
        self.steps(node);
    }

    fn ends_piece(&mut self, node: usize) {
        self.nodes[node].pieces.pop_front();
        self.nodes[node].is_zombie = false;
        // From here on it does nothing, until it begins another piece.
        self.turns(node, State::Asking);
        let has_more = !self.nodes[node].pieces.is_empty();
        self.asks(node);
        if has_more && self.settings.way == Way::Driver {
            self.begins(node);
        }
    }

    /// It is gone, and others learn of it `after` some time. Its journals are there up to `saved`.
    fn is_gone(&mut self, node: usize, saved: u64, after: u64) {
        self.keeps(node, saved);
        self.breaks_off(node);
        self.turns(node, State::Down);
        let it = &mut self.nodes[node];
        (it.epoch, it.passed) = (it.epoch + 1, 0);
        let replaced_after = self.settings.replaced_after;
        if self.settings.way == Way::Shards {
            // The scheduler starts this part once more, when it knows.
            return self.foresee(after + replaced_after, Event::IsReplaced { node });
        }
        let mut pieces = std::mem::take(&mut it.pieces);
        if std::mem::take(&mut it.is_zombie) {
            pieces.pop_front();
        }
        self.foresee(after, Event::Returned { pieces: pieces.into() });
        self.foresee(replaced_after, Event::IsReplaced { node });
    }

    fn freezes(&mut self, node: usize) {
        self.outcome.freezes += 1;
        let elapsed = self.nodes[node].elapsed(self.now);
        self.turns(node, State::Frozen);
        let it = &mut self.nodes[node];
        it.epoch += 1;
        if let Some(step) = &mut it.step {
            step.spent = elapsed;
        }
        let asleep = self.chance.exponential(self.settings.frozen_for);
        self.foresee(asleep, Event::Wakes { node });
        // A part of an array is nobody else's: it is waited for.
        if self.settings.way != Way::Shards {
            let epoch = self.nodes[node].epoch;
            self.foresee(self.settings.silent_for, Event::IsGivenUp { node, epoch });
        }
    }

    fn is_given_up(&mut self, node: usize) {
        let saved = self.nodes[node].saved(self.now, self.settings.journal_every);
        self.keeps(node, saved);
        let it = &mut self.nodes[node];
        let mut pieces = std::mem::take(&mut it.pieces);
        if it.step.is_some() {
            it.pieces.extend(pieces.front());
            if std::mem::replace(&mut it.is_zombie, true) {
                pieces.pop_front();
            }
        }
        self.returned(pieces.into());
    }

    /// It goes on with the job that it was in, and with its piece: it does not know how long it was away.
    fn wakes(&mut self, node: usize) {
        self.foresee_fault(node);
        let it = &mut self.nodes[node];
        it.epoch += 1;
        let epoch = it.epoch;
        self.outcome.zombies += u64::from(it.is_zombie);
        let asleep = self.now - it.since;
        let Some(step) = &mut it.step else { return self.asks(node) };
        step.ends += asleep;
        let left = step.ends - self.now;
        self.turns(node, State::Working);
        self.foresee(left, Event::StepEnds { node, epoch });
    }

    /// What others will find of the piece that it has begun.
    fn keeps(&mut self, node: usize, saved: u64) {
        let Node { pieces, step, .. } = &self.nodes[node];
        if let (Some(first), Some(_)) = (pieces.front(), step) {
            self.saved_until[*first] = saved;
        }
    }

    /// What it has done of its step is lost.
    fn breaks_off(&mut self, node: usize) {
        let elapsed = self.nodes[node].elapsed(self.now);
        match self.nodes[node].step.take() {
            Some(step) if step.is_look => self.outcome.times.looking += elapsed,
            Some(_) => self.outcome.times.lost += elapsed,
            None => {}
        }
    }

    /// It is in another state from now on; where its time went until now depends on the one that it was in.
    fn turns(&mut self, node: usize, state: State) {
        let it = &mut self.nodes[node];
        let (was, passed) = (std::mem::replace(&mut it.state, state), self.now - it.since);
        it.since = self.now;
        let times = &mut self.outcome.times;
        match was {
            State::Asking => times.asking += passed,
            State::Idle => times.idle += passed,
            State::Down => times.down += passed,
            State::Frozen => times.frozen += passed,
            // It is counted when the job ends.
            State::Working => {}
        }
    }

    fn ends(mut self) -> Outcome {
        self.outcome.makespan = self.now;
        for node in 0..self.nodes.len() {
            self.breaks_off(node);
            self.turns(node, State::Down);
        }
        self.outcome.with_the_steady(self.settings)
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).expect("it fits the memory")
}
