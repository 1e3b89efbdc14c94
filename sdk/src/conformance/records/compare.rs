//! Compares rows independently of their batches. Checks whether the rows are equal, or whether a
//! writer kept all of them.

use super::cell::{CellValue, cell};
use super::count;
use crate::conformance::rules::Rules;
use crate::{Loss, LossKind};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;

/// Compares two sequences of batches with the same schema. Returns the first row in which they
/// differ.
pub(super) fn difference(one: &[RecordBatch], other: &[RecordBatch]) -> Option<String> {
    if count(one) != count(other) {
        return Some(format!("{} rows and {}", count(one), count(other)));
    }
    for (first, one, other) in runs(one, other) {
        for (column, (a, b)) in one.columns().iter().zip(other.columns()).enumerate() {
            if a == b {
                continue;
            }
            let row = (0..a.len()).find(|&row| a.slice(row, 1) != b.slice(row, 1)).unwrap_or(0);
            let name = one.schema_ref().field(column).name();
            let (a, b) = (a.slice(row, 1), b.slice(row, 1));
            return Some(format!("row {}, column {name:?}: {a:?} and {b:?}", first + row as u64));
        }
    }
    None
}

/// Divides the rows of two sequences of batches at the same row numbers. Yields the number of the
/// first row, and a run of equal length from each sequence.
fn runs<'a>(
    one: &'a [RecordBatch],
    other: &'a [RecordBatch],
) -> impl Iterator<Item = (u64, RecordBatch, RecordBatch)> + 'a {
    let filled = |batch: &&RecordBatch| batch.num_rows() > 0;
    let (mut left, mut right) = (one.iter().filter(filled), other.iter().filter(filled));
    let (mut a, mut b) = (left.next().cloned(), right.next().cloned());
    let mut first = 0;
    std::iter::from_fn(move || {
        let (one, other) = (a.take()?, b.take()?);
        let rows = one.num_rows().min(other.num_rows());
        let run = (first, one.slice(0, rows), other.slice(0, rows));
        first += rows as u64;
        let rest = |batch: RecordBatch| {
            (batch.num_rows() > rows).then(|| batch.slice(rows, batch.num_rows() - rows))
        };
        a = rest(one).or_else(|| left.next().cloned());
        b = rest(other).or_else(|| right.next().cloned());
        Some(run)
    })
}

/// A table that was written, and the rows that were read back.
pub(super) struct TableRoundTrip<'a> {
    pub(super) input: &'a str,
    pub(super) schema: &'a Schema,
    pub(super) before: &'a [RecordBatch],
    pub(super) found: &'a Schema,
    pub(super) after: &'a [RecordBatch],
    pub(super) losses: &'a [Loss],
}

impl TableRoundTrip<'_> {
    /// Checks that `after` contains every value of `before`, unless a loss reports the difference.
    /// The types may differ.
    pub(super) fn check(&self, rules: &Rules<'_>) {
        rules.require(count(self.before) == count(self.after), "all rows are read back", || {
            format!("{}: {} rows became {}", self.input, count(self.before), count(self.after))
        });
        let new = self.found.fields().iter().find(|field| {
            self.schema.field_with_name(field.name()).is_err() && !self.is_part_of_lost(field.name())
        });
        rules.require(new.is_none(), "no column is made up", || format!("{}: {new:?}", self.input));
        for (first, one, other) in runs(self.before, self.after) {
            for (field, column) in self.schema.fields().iter().zip(one.columns()) {
                if !self.is_lost(field.name()) {
                    self.check_column(rules, first, field.name(), column, other.column_by_name(field.name()));
                }
            }
        }
    }

    fn is_lost(&self, name: &str) -> bool {
        let below = |what: &str| what.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        self.losses.iter().any(|loss| loss.what == name || below(&loss.what))
    }

    /// Returns whether a column may have been made from a column whose name was reported as lost.
    fn is_part_of_lost(&self, name: &str) -> bool {
        self.losses.iter().any(|loss| loss.kind == LossKind::Name && name.starts_with(&loss.what))
    }

    fn check_column(
        &self,
        rules: &Rules<'_>,
        first: u64,
        name: &str,
        before: &ArrayRef,
        after: Option<&ArrayRef>,
    ) {
        let is_same_type = after.is_some_and(|after| after.data_type() == before.data_type());
        for row in 0..before.len() {
            let same = match after {
                Some(after) if is_same_type => before.slice(row, 1) == after.slice(row, 1),
                // A missing column is treated as a column of nulls.
                None => cell(before, row) == CellValue::Null,
                Some(after) => cell(before, row).is_as(&cell(after, row)),
            };
            rules.require(same, "rows are read back as they were written, or their loss is reported", || {
                format!(
                    "{}, column {name:?}, row {}: {:?} became {:?}; losses {:?}",
                    self.input,
                    first + row as u64,
                    before.slice(row, 1),
                    after.map(|after| after.slice(row, 1)),
                    self.losses
                )
            });
        }
    }
}
