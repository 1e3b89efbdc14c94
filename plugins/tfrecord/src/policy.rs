//! Decides whether a damaged record causes an error, or is skipped and reported.

use crate::bytes::Window;
use crate::frame::{Fault, FaultKind, Frames};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tensorferry_sdk::Result;
use tensorferry_sdk::records::SkippedRecord;

/// The rules for handling faults, and the faults that have been tolerated.
#[derive(Debug)]
pub(crate) struct FaultPolicy {
    skips: bool,
    /// Whether to ignore a truncated header at the end of a file, as TensorFlow does.
    allows_tail: bool,
    max: u64,
    /// The tolerated faults by file and offset. A record may be read several times, but its fault
    /// is reported only once.
    met: Mutex<ToleratedFaults>,
}

#[derive(Debug, Default)]
struct ToleratedFaults {
    skipped: BTreeMap<(usize, u64), SkippedRecord>,
    /// Number of skipped records, excluding ignored bytes at the end of a file.
    damaged: u64,
}

impl FaultPolicy {
    /// Creates a policy that skips at most `max` damaged records. If `max` is `None`, no records
    /// are skipped.
    pub(crate) fn new(max: Option<u64>, allows_tail: bool) -> Self {
        Self { skips: max.is_some(), allows_tail, max: max.unwrap_or(0), met: Mutex::default() }
    }

    /// Returns whether damaged records are skipped.
    pub(crate) fn skips(&self) -> bool {
        self.skips
    }

    /// Tolerates a fault, or returns it as an error.
    pub(crate) fn handle(&self, file: usize, name: &str, record: u64, fault: Fault) -> Result<()> {
        let is_tail = self.allows_tail && matches!(fault.kind, FaultKind::TruncatedHeader { .. });
        let is_skipped = self.skips && fault.is_damage();
        if !is_tail && !is_skipped {
            return Err(fault.error(name, record));
        }
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.skipped.contains_key(&(file, fault.offset)) {
            return Ok(());
        }
        if !is_tail {
            if met.damaged == self.max {
                let context = format!("more than {} damaged records", self.max);
                let error = fault.error(name, record).context(context);
                return Err(error.hint("raise the limit with -i max_errors=N"));
            }
            met.damaged += 1;
        }
        let rest =
            if fault.next().is_none() && !is_tail { "; the rest of this file cannot be read" } else { "" };
        let why = format!("{}{rest}", fault.why());
        let skipped =
            SkippedRecord { file: name.to_owned(), record: Some(record), offset: fault.offset, why };
        met.skipped.insert((file, fault.offset), skipped);
        Ok(())
    }

    /// Works like [`handle`](Self::handle), and also moves `walk` past the record if the fault is
    /// tolerated. Returns whether the walk can continue.
    pub(crate) fn handle_and_skip<W: Window>(
        &self,
        walk: &mut Frames<W>,
        file: usize,
        name: &str,
        record: u64,
        fault: Fault,
    ) -> Result<bool> {
        let next = fault.next();
        self.handle(file, name, record, fault)?;
        next.inspect(|&next| walk.go_to(next));
        Ok(next.is_some())
    }

    /// Returns the faults that have been tolerated so far, by file and offset.
    pub(crate) fn skipped(&self) -> Vec<SkippedRecord> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).skipped.values().cloned().collect()
    }
}
