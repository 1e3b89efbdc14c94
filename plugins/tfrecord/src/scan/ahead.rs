//! Walks units ahead on many threads, from places where they seem to begin. What the threads find waits for
//! the walk that knows where each unit does begin; how much may wait is bounded.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The attempts at some units.
pub(super) struct Ahead<A> {
    units: usize,
    most: usize,
    state: Mutex<Attempts<A>>,
    changed: Condvar,
}

struct Attempts<A> {
    /// The unit that is attempted next.
    next: usize,
    /// The unit that is waited for.
    wanted: usize,
    /// What has been made of units; none, where it failed.
    made: BTreeMap<usize, Option<A>>,
    is_stopped: bool,
}

impl<A> Ahead<A> {
    /// No attempts yet at so many units, of which `most` may wait. With 0 there are none.
    pub(super) fn new(units: usize, most: usize) -> Self {
        let state = Attempts { next: 0, wanted: 0, made: BTreeMap::new(), is_stopped: false };
        Self { units, most, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, Attempts<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed<'a>(&self, state: MutexGuard<'a, Attempts<A>>) -> MutexGuard<'a, Attempts<A>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The next unit, for a thread that attempts it, once there is room for what it makes.
    pub(super) fn claim(&self) -> Option<Claim<'_, A>> {
        let mut state = self.state();
        while !state.is_stopped && state.next < self.units {
            if state.next < state.wanted + self.most {
                state.next += 1;
                return Some(Claim { ahead: self, unit: state.next - 1, made: None });
            }
            state = self.changed(state);
        }
        None
    }

    /// What was made of a unit. They are asked for in order, each once.
    pub(super) fn take(&self, unit: usize) -> Option<A> {
        if self.most == 0 {
            return None;
        }
        let mut state = self.state();
        state.wanted = unit;
        self.changed.notify_all();
        loop {
            if let Some(made) = state.made.remove(&unit) {
                return made;
            }
            state = self.changed(state);
        }
    }

    /// Ends all claims when it is dropped, however that comes.
    pub(super) fn until_dropped(&self) -> Stop<'_, A> {
        Stop(self)
    }
}

/// A unit that one thread attempts. Dropped, it hands in what was made of it.
pub(super) struct Claim<'a, A> {
    ahead: &'a Ahead<A>,
    /// The unit.
    pub(super) unit: usize,
    /// What was made of it.
    pub(super) made: Option<A>,
}

impl<A> Drop for Claim<'_, A> {
    fn drop(&mut self) {
        let made = self.made.take();
        self.ahead.state().made.insert(self.unit, made);
        self.ahead.changed.notify_all();
    }
}

/// See [`Ahead::until_dropped`].
pub(super) struct Stop<'a, A>(&'a Ahead<A>);

impl<A> Drop for Stop<'_, A> {
    fn drop(&mut self) {
        self.0.state().is_stopped = true;
        self.0.changed.notify_all();
    }
}
