//! Losses that only decoding the values tells.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Loss, LossKind, LossSink, Result};

/// What was lost of each column so far. The streams of a set share it.
#[derive(Debug, Clone, Default)]
pub struct SeenLosses(Arc<Mutex<BTreeMap<(String, &'static str), LossKind>>>);

impl SeenLosses {
    /// Adds a loss, which is reported once for each column.
    pub fn add(&self, column: &str, kind: LossKind, why: &'static str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert((column.to_owned(), why), kind);
    }

    /// Reports the losses so far.
    ///
    /// # Errors
    /// Returns the sink's error.
    pub fn report(&self, losses: &mut dyn LossSink) -> Result<()> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().try_for_each(|((column, why), kind)| losses.loss(Loss::new(*kind, column, *why)))
    }
}
