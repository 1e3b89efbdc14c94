//! Narrowing determines the rows and columns that a reader can leave out because no step needs
//! them. All steps are still applied to the remaining rows, with one exception: a window that the
//! reader has already applied is not applied again, and columns that the reader has dropped are not
//! dropped again.

use super::expression::Expression;
use super::{RecordAction, Upstream};
use crate::flow::{self, Flow, ReadSelection, SplitRows};
use crate::nested;
use crate::rows::Rows;
use arrow_schema::Schema;
use std::collections::BTreeSet;
use tensorferry_sdk::arrow_schema;
use tensorferry_sdk::records::{Comparison, FieldPath, Split};
use tensorferry_tensors::steps::Step;

/// The rows or columns that a reader may leave out before a step.
pub enum Pushdown<'a> {
    /// The reader may leave out rows outside this window, which selects rows by their position.
    Window {
        /// Number of rows to skip at the beginning.
        skip: u64,
        /// Maximum number of rows after the skipped rows.
        take: Option<u64>,
    },
    /// The reader may leave out rows for which the expression is not true.
    Filter(&'a Expression),
    /// The reader may leave out columns that are not in this list.
    Select(&'a [String]),
    /// The reader may leave out the columns in this list.
    Drop(&'a [String]),
    /// The reader may not leave out anything for this step. The step keeps all rows in order, so
    /// rows outside the window of a later step can still be left out.
    KeepsRows,
    /// The reader may not leave out anything, because the step needs all rows and columns.
    All,
}

/// The part of an input that must be read for a list of steps.
#[derive(Debug, Default)]
pub(super) struct Narrowing {
    columns: Option<Vec<FieldPath>>,
    predicate: Vec<Comparison>,
    skip: u64,
    take: Option<u64>,
    /// Number of leading steps among which are all windows that the reader applies.
    windows: usize,
    /// The index of the step that drops columns, if the reader drops them.
    dropped: Option<usize>,
}

impl Narrowing {
    /// Determines what a reader of rows with this schema must read for these steps.
    pub(super) fn of(schema: &Schema, steps: &[Step<RecordAction>]) -> Self {
        let mut narrowing = Self::default();
        let (mut has_all_rows, mut has_own_columns) = (true, true);
        let mut filtered = BTreeSet::new();
        let (mut kept, mut dropped) = (None, None);
        for (place, step) in steps.iter().enumerate() {
            match step.action.pushdown() {
                Pushdown::Window { skip, take } if has_all_rows => {
                    narrowing.skip = narrowing.skip.saturating_add(skip);
                    let left = narrowing.take.map(|left| left.saturating_sub(skip));
                    narrowing.take = left.into_iter().chain(take).min();
                    narrowing.windows = place + 1;
                }
                Pushdown::Window { .. } => {}
                Pushdown::KeepsRows => has_own_columns = false,
                Pushdown::Filter(expression) => {
                    has_all_rows = false;
                    if has_own_columns {
                        let Some(columns) = paths(schema, expression.columns()) else { return narrowing };
                        filtered.extend(columns);
                        narrowing.predicate.extend(expression.comparisons(schema));
                    }
                }
                Pushdown::Select(names) if has_own_columns => {
                    let names = names.iter().map(String::as_str);
                    let Some(columns) = paths(schema, names) else { return narrowing };
                    kept.get_or_insert(columns);
                }
                Pushdown::Drop(names) if has_own_columns && kept.is_none() => {
                    let named =
                        |&column: &usize| names.iter().any(|name| name == schema.field(column).name());
                    if names.iter().any(|name| schema.field_with_name(name).is_err()) {
                        return narrowing;
                    }
                    let (gone, rest): (BTreeSet<usize>, BTreeSet<usize>) =
                        (0..schema.fields().len()).partition(named);
                    kept = Some(rest.into_iter().map(|column| vec![column]).collect());
                    dropped = Some((place, gone));
                }
                Pushdown::Select(_) | Pushdown::Drop(_) => {}
                Pushdown::All => break,
            }
        }
        if let Some((place, gone)) = dropped {
            if filtered.iter().any(|path| path.first().is_some_and(|column| gone.contains(column))) {
                // If a filter needs some of the dropped columns, the reader must read these
                // columns, and the step must drop them.
                return narrowing;
            }
            narrowing.dropped = Some(place);
        }
        // Columns that a filter needs are always read. If a whole column is read, its fields do not
        // need separate entries.
        narrowing.columns = kept.map(|kept| shortest(kept.into_iter().chain(filtered).collect()));
        narrowing
    }

    /// Returns whether the reader has already applied the step at index `place`.
    pub(super) fn is_applied(&self, place: usize, step: &Step<RecordAction>) -> bool {
        self.dropped == Some(place)
            || place < self.windows && matches!(step.action.pushdown(), Pushdown::Window { .. })
    }

    /// Returns a flow of the rows of an input that remain after narrowing.
    pub(super) fn flow<'a>(self, upstream: &Upstream<'a>, rows: &'a Rows<'a>) -> Box<dyn Flow + 'a> {
        let (splits, rest) = ranges(rows.set.splits(), self.skip, self.take);
        // If the steps must count rows for a window, the reader must not leave out any rows.
        let predicate = if rest.is_some() { Vec::new() } else { self.predicate };
        let wanted = ReadSelection { columns: self.columns, predicate };
        let read = flow::read(upstream.threads, rows, splits, wanted, upstream.session);
        match rest {
            Some((skip, take)) => flow::window(read, skip, take),
            None => read,
        }
    }
}

fn paths<'a>(schema: &Schema, names: impl Iterator<Item = &'a str>) -> Option<BTreeSet<FieldPath>> {
    names.map(|name| nested::find(schema, name).ok()).collect()
}

/// Returns the paths that are not inside a different path of the list.
fn shortest(paths: BTreeSet<FieldPath>) -> Vec<FieldPath> {
    let mut shortest: Vec<FieldPath> = Vec::new();
    for path in paths {
        if !shortest.last().is_some_and(|last| path.starts_with(last)) {
            shortest.push(path);
        }
    }
    shortest
}

/// Returns the rows to read from each split for a window over all rows. If the number of rows in a
/// split is unknown, also returns the window to apply to the rows that are read.
fn ranges(
    splits: &[Split],
    mut skip: u64,
    take: Option<u64>,
) -> (Vec<SplitRows>, Option<(u64, Option<u64>)>) {
    let mut left = take;
    let mut ranges = Vec::new();
    let mut splits = splits.iter().enumerate();
    while left != Some(0)
        && let Some((split, Split { records, .. })) = splits.next()
    {
        let Some(rows) = *records else {
            if skip == 0 && left.is_none() {
                ranges.push(SplitRows::whole(split));
                continue;
            }
            let most = left.map(|left| skip.saturating_add(left));
            let rest = std::iter::once(split).chain(splits.map(|(split, _)| split));
            // The returned window also covers the rows of splits that were already selected, so
            // these rows are added to its length.
            let before: u64 = ranges.iter().map(|range: &SplitRows| range.limit.unwrap_or(0)).sum();
            ranges.extend(rest.map(|split| SplitRows { split, first_row: 0, limit: most }));
            return (ranges, Some((skip, left.map(|left| left.saturating_add(before)))));
        };
        let first_row = skip.min(rows);
        skip -= first_row;
        let limit = left.unwrap_or(u64::MAX).min(rows - first_row);
        left = left.map(|left| left - limit);
        if limit > 0 || (rows == 0 && take.is_none()) {
            ranges.push(SplitRows { split, first_row, limit: Some(limit) });
        }
    }
    (ranges, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_dealt_over_splits() {
        let of = |counts: &[Option<u64>], skip, take| {
            let splits: Vec<Split> =
                counts.iter().map(|&records| Split { records, ..Split::default() }).collect();
            let (ranges, rest) = ranges(&splits, skip, take);
            let ranges: Vec<_> =
                ranges.iter().map(|range| (range.split, range.first_row, range.limit)).collect();
            (ranges, rest)
        };
        let known = [Some(10), Some(0), Some(5), Some(10)];
        assert_eq!(
            of(&known, 0, None),
            (vec![(0, 0, Some(10)), (1, 0, Some(0)), (2, 0, Some(5)), (3, 0, Some(10))], None)
        );
        assert_eq!(of(&known, 12, None).0.last(), Some(&(3, 0, Some(10))));
        assert_eq!(of(&known, 12, Some(4)), (vec![(2, 2, Some(3)), (3, 0, Some(1))], None));
        assert_eq!(of(&known, 3, Some(7)), (vec![(0, 3, Some(7))], None));
        assert_eq!(of(&known, 99, Some(7)), (vec![], None));
        assert_eq!(of(&known, 0, Some(0)), (vec![], None));
        // Rows after a split of unknown length must be counted while they are read.
        let unknown = [Some(10), None, Some(5), None];
        assert_eq!(of(&unknown, 0, None).1, None);
        assert_eq!(of(&unknown, 0, Some(3)), (vec![(0, 0, Some(3))], None));
        assert_eq!(
            of(&unknown, 4, Some(10)),
            (vec![(0, 4, Some(6)), (1, 0, Some(4)), (2, 0, Some(4)), (3, 0, Some(4))], Some((0, Some(10))))
        );
        assert_eq!(
            of(&unknown, 12, Some(2)),
            (vec![(1, 0, Some(4)), (2, 0, Some(4)), (3, 0, Some(4))], Some((2, Some(2))))
        );
        assert_eq!(of(&unknown, 12, None).1, Some((2, None)));
    }
}
