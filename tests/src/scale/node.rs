//! A node is a machine with one worker: what it does, and since when.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Asking,
    Idle,
    Working,
    Down,
    Frozen,
}

/// What a node does between two events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// It only looks whether the output is there.
    pub(super) is_look: bool,
    pub(super) job: usize,
    /// Microseconds that it takes a node that is not slow, and this one; the store may take longer.
    pub(super) nominal: u64,
    pub(super) full: u64,
    pub(super) ends: u64,
    /// Microseconds before it was frozen.
    pub(super) spent: u64,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) state: State,
    pub(super) since: u64,
    pub(super) epoch: u64,
    /// How many times as long everything takes it.
    pub(super) factor: u64,
    /// The one that it does comes first.
    pub(super) pieces: VecDeque<usize>,
    /// Its next job.
    pub(super) next: usize,
    pub(super) began: u64,
    /// Until when its journal has what others did of the piece.
    pub(super) knows_until: u64,
    pub(super) step: Option<Step>,
    /// Another node has its piece, and it does not know.
    pub(super) is_zombie: bool,
    /// Pieces that it has looked at, to claim one.
    pub(super) passed: u64,
}

impl Node {
    /// One that has these pieces, and does nothing yet.
    pub(super) fn new(pieces: VecDeque<usize>) -> Self {
        Self {
            state: State::Idle,
            since: 0,
            epoch: 0,
            factor: 1,
            pieces,
            next: 0,
            began: 0,
            knows_until: 0,
            step: None,
            is_zombie: false,
            passed: 0,
        }
    }

    /// Microseconds of its step, but for those in which it was frozen.
    pub(super) fn elapsed(&self, now: u64) -> u64 {
        let running = if self.state == State::Working { now - self.since } else { 0 };
        self.step.map_or(0, |step| step.spent + running)
    }

    /// Until when a worker that stops now has written its journal to where others find it.
    pub(super) fn saved(&self, now: u64, journal_every: u64) -> u64 {
        let until = if self.state == State::Frozen { self.since } else { now };
        until - (until - self.began.min(until)).checked_rem(journal_every).unwrap_or(0)
    }
}
