//! A record set that contains a range of a different record set's splits.

use arrow_schema::SchemaRef;
use std::sync::Arc;
use tensorferry_sdk::records::{BatchStream, Batches, RecordSet, ScanRequest, SkippedRecord, Split};
use tensorferry_sdk::{ByteSink, Error, LossSink, Result, arrow_schema};

/// Consecutive splits of the record set `set`.
pub(super) struct Narrowed {
    set: Arc<dyn RecordSet>,
    /// Index in `set` of the first split.
    first: usize,
    splits: Vec<Split>,
}

impl Narrowed {
    /// Creates a record set from `splits`, which start at index `first` in `set`.
    pub(super) fn new(set: Arc<dyn RecordSet>, first: usize, splits: Vec<Split>) -> Self {
        Self { set, first, splits }
    }

    /// Converts a split's index in this record set to its index in `set`.
    fn number(&self, split: usize) -> Result<usize> {
        if split < self.splits.len() {
            Ok(self.first + split)
        } else {
            Err(Error::plugin(format!("no split {split}")))
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "every method must be forwarded or implemented here")]
impl RecordSet for Narrowed {
    fn schema(&self) -> SchemaRef {
        self.set.schema()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn stream(&self, split: usize, batches: &Batches) -> Result<BatchStream> {
        self.set.stream(self.number(split)?, batches)
    }

    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        self.set.scan(self.number(split)?, scan)
    }

    fn json(&self, split: usize, most: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        self.set.json(self.number(split)?, most, output)
    }

    fn skipped(&self) -> Vec<SkippedRecord> {
        self.set.skipped()
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        self.set.losses(losses)
    }
}
