//! How pieces come to nodes: from an array, by leases, from a driver.

use super::super::node::State;
use super::super::settings::{SECOND, Settings, Way};
use super::{Cluster, Event};

impl Cluster<'_> {
    pub(super) fn asks(&mut self, node: usize) {
        let epoch = self.nodes[node].epoch;
        let after = match self.settings.way {
            Way::Shards if self.nodes[node].pieces.is_empty() => return self.turns(node, State::Idle),
            Way::Shards => return self.begins(node),
            Way::Leases => self.claim(node),
            Way::Driver => self.call(),
        };
        if self.nodes[node].pieces.is_empty() {
            self.turns(node, State::Asking);
        }
        self.foresee(after, Event::Answered { node, epoch });
    }

    /// How long it takes to claim a lease. A worker looks at the pieces one after the other, each once: the more of them others have, the
    /// more it passes before one is free.
    fn claim(&mut self, node: usize) -> u64 {
        let Settings { claim_time, piece_look_time, .. } = *self.settings;
        // A scheduler that hands out the tasks of an array looks at none.
        let looks = u64::from(piece_look_time > 0);
        let left = (self.settings.pieces() - self.nodes[node].passed) * looks;
        let passes = if self.ready.is_empty() { left } else { left / (self.ready.len() as u64 + 1) };
        self.nodes[node].passed += passes;
        self.outcome.folder_operations += 2 * passes + 3;
        passes * piece_look_time + claim_time
    }

    /// How long it takes the driver to answer.
    fn call(&mut self) -> u64 {
        let call_time = self.settings.call_time;
        // Of a thousand; what asking for progress leaves.
        let asking = self.settings.asked_a_second() * call_time * 1000 / SECOND;
        let left = 1000u64.saturating_sub(asking).max(10);
        self.outcome.calls += 1;
        self.driver_free = self.driver_free.max(self.now) + call_time * 1000 / left;
        self.driver_free - self.now
    }

    pub(super) fn answered(&mut self, node: usize) {
        let is_working = self.nodes[node].state == State::Working;
        // What is left at the end is for those who have nothing.
        let enough = if is_working { self.nodes.len() } else { 0 };
        let piece = if self.ready.len() > enough { self.ready.pop_front() } else { None };
        match piece {
            Some(piece) => {
                self.nodes[node].pieces.push_back(piece);
                if !is_working {
                    self.begins(node);
                }
            }
            None if is_working => {}
            None => {
                self.turns(node, State::Idle);
                self.idle.push_back(node);
            }
        }
    }

    pub(super) fn returned(&mut self, pieces: Vec<usize>) {
        for piece in pieces.into_iter().rev() {
            self.ready.push_front(piece);
            self.offers();
        }
    }

    /// A node that has nothing to do gets the next piece, if there is one.
    pub(super) fn offers(&mut self) {
        let is_idle = |node: &usize| self.nodes[*node].state == State::Idle;
        let Some(at) = self.idle.iter().position(is_idle).filter(|_| !self.ready.is_empty()) else { return };
        let node = self.idle.drain(..=at).next_back().expect("there is one");
        let epoch = self.nodes[node].epoch;
        let after = match self.settings.way {
            Way::Driver => self.call(),
            // It looks again as often as it would renew a lease.
            Way::Leases | Way::Shards => {
                self.chance.below(self.settings.poll_every) + self.settings.claim_time
            }
        };
        self.turns(node, State::Asking);
        self.foresee(after, Event::Answered { node, epoch });
    }
}
