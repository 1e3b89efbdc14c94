//! The memory budget for uploads. If there is not enough memory for a part, the writer waits until
//! another part has been uploaded. If no upload is running, the writer would wait forever, so the
//! part is written to a file instead.

use crate::cache::{CANCEL_CHECK_INTERVAL, Cancelled};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::{Error, Result};

pub(crate) struct Budget {
    most: u64,
    state: Mutex<BudgetState>,
    turn: Condvar,
}

#[derive(Default)]
struct BudgetState {
    used: u64,
    /// Number of bytes, included in `used`, that are kept in memory until a commit.
    kept: u64,
    /// Number of parts that are being uploaded.
    uploading: usize,
}

/// Part of the budget, in bytes, that is reserved until this value is dropped.
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
    is_uploading: bool,
    is_kept: bool,
}

impl Budget {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), turn: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of a part. The size is small enough that several parts fit in memory, and
    /// large enough that 10,000 parts can contain `len` bytes. The size is not below the minimum
    /// that stores accept.
    pub(crate) fn part_bytes(&self, len: Option<u64>) -> u64 {
        const MIB: u64 = 1 << 20;
        let usual = (self.most / 4 / MIB).clamp(5, 16) * MIB;
        usual.max(len.unwrap_or(0).div_ceil(MAX_PARTS).next_multiple_of(MIB))
    }

    /// Reserves bytes for a part. Returns `None` if there is not enough memory, and no running
    /// upload could free memory.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64, cancelled: &Cancelled) -> Result<Option<Reservation>> {
        let mut state = self.state();
        loop {
            if state.used == 0 || state.used + bytes <= self.most {
                state.used += bytes;
                return Ok(Some(Reservation {
                    budget: Arc::clone(self),
                    bytes,
                    is_uploading: false,
                    is_kept: false,
                }));
            }
            if state.uploading == 0 {
                return Ok(None);
            }
            if cancelled() {
                return Err(Error::cancelled("interrupted during an upload"));
            }
            state = self
                .turn
                .wait_timeout(state, CANCEL_CHECK_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Reserves bytes for a part that is uploaded immediately. Exceeds the budget if no running
    /// upload could free memory.
    pub(crate) fn take_or_wait(self: &Arc<Self>, bytes: u64, cancelled: &Cancelled) -> Result<Reservation> {
        if let Some(held) = self.take(bytes, cancelled)? {
            return Ok(held);
        }
        self.state().used += bytes;
        Ok(Reservation { budget: Arc::clone(self), bytes, is_uploading: false, is_kept: false })
    }

    /// Returns whether more than half of the budget is in use. If so, parts that cannot be sent
    /// soon should be moved to a file.
    pub(crate) fn is_tight(&self) -> bool {
        self.state().used > self.most / 2
    }
}

/// Maximum number of parts of an object in S3 and Google Cloud Storage.
pub(crate) const MAX_PARTS: u64 = 10_000;

impl Reservation {
    /// Marks the reserved bytes as being uploaded.
    pub(crate) fn mark_uploading(&mut self) {
        if !std::mem::replace(&mut self.is_uploading, true) {
            self.budget.state().uploading += 1;
        }
    }

    /// Marks the reserved bytes as waiting for the commit. Returns false, without marking them, if
    /// more than a quarter of the budget would then be waiting for commits.
    pub(crate) fn keep(&mut self, bytes: u64) -> bool {
        let budget = Arc::clone(&self.budget);
        let mut state = budget.state();
        if state.kept + bytes > budget.most / 4 {
            return false;
        }
        state.used -= self.bytes - bytes.min(self.bytes);
        self.bytes = self.bytes.min(bytes);
        state.kept += self.bytes;
        self.is_kept = true;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.used -= self.bytes;
        state.uploading -= usize::from(self.is_uploading);
        state.kept -= if self.is_kept { self.bytes } else { 0 };
        self.budget.turn.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn parts_are_as_large_as_an_object_needs_and_stores_take() {
        let of = |most: u64, len| Budget::new(most * MIB).part_bytes(len) / MIB;
        assert_eq!(of(128, None), 16);
        assert_eq!(of(32, Some(1)), 8);
        assert_eq!(of(1, None), 5);
        assert_eq!(of(128, Some(160_000 * MIB)), 16);
        assert_eq!(of(128, Some(160_000 * MIB + 1)), 17);
    }

    #[test]
    fn who_cannot_wait_is_told_and_who_can_waits() {
        let never: Cancelled = Arc::new(|| false);
        let budget = Budget::new(10);
        let mut first = budget.take(8, &never).unwrap().unwrap();
        assert!(budget.take(8, &never).unwrap().is_none());
        assert!(budget.is_tight());
        first.mark_uploading();
        let ended: Cancelled = Arc::new(|| true);
        assert!(budget.take(8, &ended).is_err());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| budget.take(8, &never).unwrap().is_some());
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(first);
            assert!(waits.join().unwrap());
        });
        assert!(!budget.is_tight());
        // If no memory is in use, a part of any size is accepted.
        assert!(budget.take(100, &never).unwrap().is_some());
    }

    #[test]
    fn a_quarter_may_wait_for_its_commit() {
        let never: Cancelled = Arc::new(|| false);
        let budget = Budget::new(100);
        let mut one = budget.take(50, &never).unwrap().unwrap();
        assert!(one.keep(20));
        assert!(budget.take(80, &never).unwrap().is_some());
        let mut other = budget.take(50, &never).unwrap().unwrap();
        assert!(!other.keep(20));
        drop(one);
        assert!(other.keep(20));
    }
}
