//! Records which columns of a user's schema have had a value. If a column never has a value, its
//! name in the schema is probably misspelled, and the values of the intended key are not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_sdk::arrow_array::{Array, RecordBatch};
use tensorferry_sdk::arrow_schema::Schema;
use tensorferry_sdk::{Loss, LossKind, LossSink, Result, Severity};

/// A record of the columns that have had values. All streams of a record set share it.
#[derive(Debug, Clone)]
pub(super) struct ValuesSeen(Arc<[Column]>);

#[derive(Debug)]
struct Column {
    name: String,
    is_asked: AtomicBool,
    has_value: AtomicBool,
}

impl ValuesSeen {
    pub(super) fn new(schema: &Schema) -> Self {
        let column = |name: &String| Column {
            name: name.clone(),
            is_asked: AtomicBool::new(false),
            has_value: AtomicBool::new(false),
        };
        Self(schema.fields().iter().map(|field| column(field.name())).collect())
    }

    /// Records the columns of a batch that have values.
    pub(super) fn examine(&self, batch: &RecordBatch) {
        for column in self.0.iter().filter(|column| !column.has_value.load(Ordering::Relaxed)) {
            let Some(values) = batch.column_by_name(&column.name) else { continue };
            column.is_asked.store(true, Ordering::Relaxed);
            if values.null_count() < values.len() {
                column.has_value.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Reports the columns that were read but had no values.
    pub(super) fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let is_empty = |column: &&Column| {
            column.is_asked.load(Ordering::Relaxed) && !column.has_value.load(Ordering::Relaxed)
        };
        self.0.iter().filter(is_empty).try_for_each(|column| {
            let why = "no line has a value for this column in the schema";
            losses.loss(Loss::new(LossKind::Record, &column.name, why).severity(Severity::Note))
        })
    }
}
