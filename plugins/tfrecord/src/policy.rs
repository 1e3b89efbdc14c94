//! Decides what a damaged record means: an error, or a record that is skipped and reported.

use crate::bytes::Window;
use crate::frame::{Fault, FaultKind, Walk};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tensorferry_sdk::Result;
use tensorferry_sdk::records::Skipped;

/// What is done about faults, and those that were let pass.
#[derive(Debug)]
pub(crate) struct Policy {
    skips: bool,
    /// Whether a header that is cut off at the end of a file is let pass, as TensorFlow does.
    allows_tail: bool,
    most: u64,
    /// By file and offset: records are read more than once, and told of once.
    met: Mutex<LetPass>,
}

#[derive(Debug, Default)]
struct LetPass {
    skipped: BTreeMap<(usize, u64), Skipped>,
    /// Those that count against the limit.
    damaged: u64,
}

impl Policy {
    /// Leaves out at most `most` damaged records, if any.
    pub(crate) fn new(most: Option<u64>, allows_tail: bool) -> Self {
        Self { skips: most.is_some(), allows_tail, most: most.unwrap_or(0), met: Mutex::default() }
    }

    /// Whether damaged records are left out.
    pub(crate) fn skips(&self) -> bool {
        self.skips
    }

    /// Lets a fault pass, or makes it an error.
    pub(crate) fn meet(&self, file: usize, name: &str, record: u64, fault: Fault) -> Result<()> {
        let is_tail = self.allows_tail && matches!(fault.kind, FaultKind::Tail { .. });
        let is_skipped = self.skips && fault.is_damage();
        if !is_tail && !is_skipped {
            return Err(fault.error(name, record));
        }
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.skipped.contains_key(&(file, fault.offset)) {
            return Ok(());
        }
        if !is_tail {
            if met.damaged == self.most {
                let context = format!("more than {} damaged records (-i max_errors)", self.most);
                return Err(fault.error(name, record).context(context));
            }
            met.damaged += 1;
        }
        let rest = if fault.next().is_none() && !is_tail {
            "; what follows in this file cannot be reached"
        } else {
            ""
        };
        let why = format!("{}{rest}", fault.why());
        let skipped = Skipped { file: name.to_owned(), record: Some(record), offset: fault.offset, why };
        met.skipped.insert((file, fault.offset), skipped);
        Ok(())
    }

    /// As [`meet`](Self::meet); if it lets the fault pass, `walk` goes on behind the record. Whether it can.
    pub(crate) fn pass<W: Window>(
        &self,
        walk: &mut Walk<W>,
        file: usize,
        name: &str,
        record: u64,
        fault: Fault,
    ) -> Result<bool> {
        let next = fault.next();
        self.meet(file, name, record, fault)?;
        next.inspect(|&next| walk.go_to(next));
        Ok(next.is_some())
    }

    /// What was let pass so far, in order.
    pub(crate) fn skipped(&self) -> Vec<Skipped> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).skipped.values().cloned().collect()
    }
}
