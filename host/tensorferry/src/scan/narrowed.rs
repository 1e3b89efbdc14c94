//! Some splits of a set of records, as a set.

use arrow_schema::SchemaRef;
use std::sync::Arc;
use tensorferry_sdk::records::{Batched, Batches, RecordSet, Scan, Skipped, Split};
use tensorferry_sdk::{ByteSink, Error, LossSink, Result, arrow_schema};

/// Splits of another set that follow each other.
pub(super) struct Narrowed {
    set: Arc<dyn RecordSet>,
    /// The number that the first of them has in the other set.
    first: usize,
    splits: Vec<Split>,
}

impl Narrowed {
    /// The splits of `set` from number `first` on that are these.
    pub(super) fn new(set: Arc<dyn RecordSet>, first: usize, splits: Vec<Split>) -> Self {
        Self { set, first, splits }
    }

    /// The number of a split in the other set.
    fn number(&self, split: usize) -> Result<usize> {
        if split < self.splits.len() {
            Ok(self.first + split)
        } else {
            Err(Error::plugin(format!("no split {split}")))
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "every question goes to the other set or is answered here")]
impl RecordSet for Narrowed {
    fn schema(&self) -> SchemaRef {
        self.set.schema()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn stream(&self, split: usize, batches: &Batches) -> Result<Batched> {
        self.set.stream(self.number(split)?, batches)
    }

    fn scan(&self, split: usize, scan: &Scan) -> Result<Batched> {
        self.set.scan(self.number(split)?, scan)
    }

    fn json(&self, split: usize, most: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        self.set.json(self.number(split)?, most, output)
    }

    fn skipped(&self) -> Vec<Skipped> {
        self.set.skipped()
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        self.set.losses(losses)
    }
}
