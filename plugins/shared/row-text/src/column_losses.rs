//! Collects losses that can be detected only while values are decoded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Loss, LossKind, LossSink, Result};

/// The losses of each column that have been reported so far. All streams of a dataset share this
/// set.
#[derive(Debug, Clone, Default)]
pub struct ColumnLosses(Arc<Mutex<BTreeMap<(String, &'static str), LossKind>>>);

impl ColumnLosses {
    /// Adds a loss. Each loss is reported only once per column.
    pub fn add(&self, column: &str, kind: LossKind, why: &'static str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert((column.to_owned(), why), kind);
    }

    pub fn report(&self, losses: &mut dyn LossSink) -> Result<()> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().try_for_each(|((column, why), kind)| losses.loss(Loss::new(*kind, column, *why)))
    }
}
