//! Walks units in advance on several threads, from guessed starts. The results are kept until the
//! exact walk takes them. Only the exact walk determines the true start of each unit. The number of
//! kept results is limited.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(super) struct Attempts<A> {
    units: usize,
    max: usize,
    state: Mutex<AttemptState<A>>,
    changed: Condvar,
}

struct AttemptState<A> {
    /// The next unit to attempt.
    next: usize,
    /// The unit that the exact walk is waiting for.
    wanted: usize,
    /// The results by unit, or `None` if an attempt failed.
    made: BTreeMap<usize, Option<A>>,
    is_stopped: bool,
}

impl<A> Attempts<A> {
    /// Creates a queue of `units` units to attempt. At most `max` results are kept at a time. If
    /// `max` is 0, no attempts are made.
    pub(super) fn new(units: usize, max: usize) -> Self {
        let state = AttemptState { next: 0, wanted: 0, made: BTreeMap::new(), is_stopped: false };
        Self { units, max, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, AttemptState<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, AttemptState<A>>) -> MutexGuard<'a, AttemptState<A>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next unit that a thread should attempt. Waits until there is room for the
    /// result.
    pub(super) fn claim(&self) -> Option<Claim<'_, A>> {
        let mut state = self.state();
        while !state.is_stopped && state.next < self.units {
            if state.next < state.wanted + self.max {
                state.next += 1;
                return Some(Claim { ahead: self, unit: state.next - 1, made: None });
            }
            state = self.wait(state);
        }
        None
    }

    /// Returns the result of a unit. The caller must take the units in order, and must take each
    /// unit only once.
    pub(super) fn take(&self, unit: usize) -> Option<A> {
        if self.max == 0 {
            return None;
        }
        let mut state = self.state();
        state.wanted = unit;
        self.changed.notify_all();
        loop {
            if let Some(made) = state.made.remove(&unit) {
                return made;
            }
            state = self.wait(state);
        }
    }

    /// Returns a guard. When the guard is dropped, no more units can be claimed.
    pub(super) fn stop_guard(&self) -> StopGuard<'_, A> {
        StopGuard(self)
    }
}

/// A unit that a thread has claimed. Dropping the claim stores the result.
pub(super) struct Claim<'a, A> {
    ahead: &'a Attempts<A>,
    pub(super) unit: usize,
    pub(super) made: Option<A>,
}

impl<A> Drop for Claim<'_, A> {
    fn drop(&mut self) {
        let made = self.made.take();
        self.ahead.state().made.insert(self.unit, made);
        self.ahead.changed.notify_all();
    }
}

/// The guard that [`Attempts::stop_guard`] returns.
pub(super) struct StopGuard<'a, A>(&'a Attempts<A>);

impl<A> Drop for StopGuard<'_, A> {
    fn drop(&mut self) {
        self.0.state().is_stopped = true;
        self.0.changed.notify_all();
    }
}
