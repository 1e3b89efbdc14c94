//! Collects the values of one feature from each record, and builds the array of the feature's
//! column.

use super::leaf::{self, BadValue};
use super::values::Values;
use super::{Column, Missing, Shape, item};
use crate::message::{Kind, Part, Pieces, lists};
use arrow_array::{Array as _, ArrayRef, FixedSizeListArray, ListArray, NullArray, new_null_array};
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use std::sync::Arc;
use tensorferry_proto::wire::WireError;

#[derive(Debug)]
pub(super) struct Builder {
    column: Column,
    product: usize,
    values: Values,
    /// The element index at which each step of a list of features ends. This field is unused if the
    /// shape is fixed.
    step_ends: Vec<i32>,
    step_validity: NullBufferBuilder,
    /// The index at which each row ends. Indices count elements, or steps for lists of features.
    /// This field is unused if a row has a fixed shape.
    ends: Vec<i32>,
    validity: NullBufferBuilder,
    rows: usize,
    /// The number of values and the number of steps before the last row.
    before: RowLengths,
    /// The number of values and the number of steps up to the end of the last complete row.
    whole: RowLengths,
    /// Number of features without a kind.
    unset: u64,
    /// An array of nulls for batches in which no row has the feature. It is kept for reuse, because
    /// most batches have the same length.
    absent: Option<ArrayRef>,
}

/// The number of values and the number of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RowLengths {
    values: usize,
    steps: usize,
}

/// The reason why a feature does not fit its column.
#[derive(Debug)]
pub(crate) enum FeatureMismatch {
    Wire(WireError),
    /// The feature contradicts the schema.
    Contradiction {
        expected: String,
        found: String,
    },
    /// The row with this number lacks a required feature.
    Missing(usize),
    /// A value of this row does not fit the type of the column.
    Value {
        row: usize,
        expected: String,
        found: String,
    },
}

impl From<WireError> for FeatureMismatch {
    fn from(broken: WireError) -> Self {
        Self::Wire(broken)
    }
}

impl Builder {
    pub(super) fn new(column: Column, capacity: usize) -> Self {
        Self {
            product: column.shape.product(),
            values: Values::new(column.kind),
            column,
            step_ends: Vec::new(),
            step_validity: NullBufferBuilder::new(0),
            ends: Vec::new(),
            validity: NullBufferBuilder::new(capacity),
            rows: 0,
            before: RowLengths::default(),
            whole: RowLengths::default(),
            unset: 0,
            absent: None,
        }
    }

    /// Returns the minimum number of bytes that a row occupies in the array. This number may be
    /// larger than the record.
    pub(super) fn row_bytes(&self) -> u64 {
        match (&self.column.shape, self.column.part) {
            (Shape::Fixed(_), Part::Features) => 8 * self.product as u64,
            _ => 4,
        }
    }

    /// Returns the maximum number of bytes by which the last row may exceed the record. For
    /// example, an integer that takes one byte in the record takes eight bytes in the array.
    #[inline]
    pub(super) fn widened(&self) -> u64 {
        let values = self.whole.values.saturating_sub(self.before.values) as u64;
        if self.column.kind == Some(Kind::Int64) { 8 * values } else { 0 }
    }

    /// Returns the number of features without a kind, and resets the count.
    pub(super) fn take_unset(&mut self) -> u64 {
        std::mem::take(&mut self.unset)
    }

    /// Sets the feature of a row. If a record contains the feature several times, the last
    /// occurrence counts.
    #[inline]
    pub(super) fn set(&mut self, row: usize, feature: Pieces<'_>) -> Result<(), FeatureMismatch> {
        if self.rows > row {
            self.rollback(row);
        }
        self.pad(row)?;
        self.before = self.whole;
        if self.column.part == Part::Features {
            let seen = self.feature(feature, self.before.values)?;
            return self.end_row(seen);
        }
        feature.each(|list| {
            Pieces::fields(1, list).each(|step| {
                let before = self.values.len();
                let seen = self.feature(Pieces::one(step), before)?;
                self.end_step(seen, before)
            })
        })?;
        self.end_list()
    }

    /// Drops the values of a row.
    pub(super) fn rollback(&mut self, row: usize) {
        if self.rows > row {
            self.rows = row;
            self.validity.truncate(row);
            self.ends.truncate(row);
            self.whole = self.before;
        }
        self.values.truncate(self.whole.values);
        self.step_ends.truncate(self.whole.steps);
        self.step_validity.truncate(self.whole.steps);
    }

    fn lengths(&self) -> RowLengths {
        RowLengths { values: self.values.len(), steps: self.step_validity.len() }
    }

    /// Appends the values of a feature, and returns their kind.
    #[inline]
    fn feature(&mut self, feature: Pieces<'_>, before: usize) -> Result<Option<Kind>, WireError> {
        let Some((kind, list)) = feature.list() else { return self.any_feature(feature, before) };
        if self.column.kind == Some(kind) {
            self.values.append(list)?;
        }
        Ok(Some(kind))
    }

    /// Works like [`feature`](Self::feature), but also accepts forms that programs rarely write.
    #[cold]
    fn any_feature(&mut self, feature: Pieces<'_>, before: usize) -> Result<Option<Kind>, WireError> {
        let mut seen = None;
        feature.each(|piece| {
            lists(piece, |kind, list| {
                // The last member of a oneof counts. If several pieces contain the same member,
                // their lists are concatenated.
                if seen.is_some_and(|seen| seen != kind) {
                    self.values.truncate(before);
                }
                seen = Some(kind);
                if seen == self.column.kind { self.values.append(list) } else { Ok(()) }
            })
        })?;
        Ok(seen)
    }

    #[inline]
    fn end_row(&mut self, seen: Option<Kind>) -> Result<(), FeatureMismatch> {
        let Some(kind) = seen else {
            self.unset += 1;
            return self.pad(self.rows + 1);
        };
        let values = self.values.len();
        self.check(kind, values - self.before.values)?;
        if let Shape::Ragged(_) = self.column.shape {
            // Most elements are single values. For these, the condition avoids a division, which
            // takes as long as appending a short list.
            self.ends.push(length(if self.product == 1 { values } else { values / self.product }));
        }
        self.complete_row(RowLengths { values, ..self.before });
        Ok(())
    }

    #[inline]
    fn complete_row(&mut self, whole: RowLengths) {
        self.validity.append_non_null();
        self.rows += 1;
        self.whole = whole;
    }

    fn end_step(&mut self, seen: Option<Kind>, before: usize) -> Result<(), FeatureMismatch> {
        match seen {
            Some(kind) => self.check(kind, self.values.len() - before)?,
            None => {
                self.unset += 1;
                if let Shape::Fixed(_) = self.column.shape {
                    self.values.fill(self.product);
                }
            }
        }
        if let Shape::Ragged(_) = self.column.shape {
            self.step_ends.push(length(self.values.len() / self.product));
        }
        self.step_validity.append(seen.is_some());
        Ok(())
    }

    fn end_list(&mut self) -> Result<(), FeatureMismatch> {
        if self.column.kind.is_none() {
            // The steps have no values, and a column of type `Null` cannot represent steps.
            return self.pad(self.rows + 1);
        }
        self.ends.push(length(self.step_validity.len()));
        self.complete_row(self.lengths());
        Ok(())
    }

    /// Checks that a feature has the column's kind, and that its number of values fits the column's
    /// shape.
    #[inline]
    fn check(&self, kind: Kind, count: usize) -> Result<(), FeatureMismatch> {
        let fits = match self.column.shape {
            Shape::Fixed(_) => count == self.product,
            Shape::Ragged(_) => self.product == 1 || count.is_multiple_of(self.product),
        };
        if fits && self.column.kind == Some(kind) { Ok(()) } else { Err(self.contradiction(kind, count)) }
    }

    #[cold]
    fn contradiction(&self, kind: Kind, count: usize) -> FeatureMismatch {
        let Some(expected) = self.column.kind else {
            return FeatureMismatch::Contradiction {
                expected: "no value".to_owned(),
                found: kind.list_name().to_owned(),
            };
        };
        if expected != kind {
            return FeatureMismatch::Contradiction {
                expected: expected.list_name().to_owned(),
                found: kind.list_name().to_owned(),
            };
        }
        let expected = match self.column.shape {
            Shape::Fixed(_) => format!("{} values", self.product),
            Shape::Ragged(_) => format!("a multiple of {} values", self.product),
        };
        FeatureMismatch::Contradiction { expected, found: format!("{count} values") }
    }

    /// Appends replacements for missing features up to the row `row`.
    #[inline]
    fn pad(&mut self, row: usize) -> Result<(), FeatureMismatch> {
        if self.rows < row { self.pad_rows(row) } else { Ok(()) }
    }

    #[cold]
    fn pad_rows(&mut self, row: usize) -> Result<(), FeatureMismatch> {
        let count = row - self.rows;
        let is_valid = match &self.column.missing {
            Missing::Refused => return Err(FeatureMismatch::Missing(self.rows)),
            Missing::Null => {
                if let (Shape::Fixed(_), Part::Features, true) =
                    (&self.column.shape, self.column.part, self.column.kind.is_some())
                {
                    self.values.fill(count * self.product);
                }
                self.end_missing(count);
                false
            }
            Missing::Values(_) => {
                for _ in 0..count {
                    if let Missing::Values(default) = &self.column.missing {
                        self.values.extend(default);
                    }
                    self.end_missing(1);
                }
                true
            }
        };
        if is_valid {
            self.validity.append_n_non_nulls(count);
        } else {
            self.validity.append_n_nulls(count);
        }
        self.rows = row;
        self.whole = self.lengths();
        Ok(())
    }

    /// Appends `count` rows that have no values.
    fn end_missing(&mut self, count: usize) {
        let end = match (self.column.part, &self.column.shape) {
            (Part::Lists, _) => length(self.step_validity.len()),
            (_, Shape::Ragged(_)) => length(self.values.len() / self.product),
            _ => return,
        };
        self.ends.resize(self.ends.len() + count, end);
    }

    /// Returns an array with `rows` rows, and resets the builder.
    pub(super) fn finish(&mut self, rows: usize) -> Result<ArrayRef, FeatureMismatch> {
        if self.rows == 0 && self.column.missing == Missing::Null {
            // If the schema has thousands of features and each record has only a few of them, most
            // columns of a batch take this branch.
            let absent = self.absent.take().filter(|absent| absent.len() == rows);
            let absent = absent.unwrap_or_else(|| new_null_array(&self.column.data_type(), rows));
            self.absent = Some(absent.clone());
            return Ok(absent);
        }
        self.pad(rows)?;
        // The batches of an input have similar sizes, so the next batch reuses the capacities of
        // this one.
        let mut fresh = Self::new(self.column.clone(), rows);
        fresh.values = self.values.new_empty();
        fresh.ends.reserve(self.ends.len());
        fresh.absent = self.absent.take();
        let Self { column, values, step_ends, mut step_validity, ends, mut validity, unset, .. } =
            std::mem::replace(self, fresh);
        self.unset = unset;
        if column.kind.is_none() {
            return Ok(Arc::new(NullArray::new(rows)));
        }
        let validity = nulls(&mut validity);
        let rows_of = |bad: BadValue| {
            let element = bad.index / self.product;
            let step = match column.shape {
                Shape::Fixed(_) => element,
                Shape::Ragged(_) if column.part == Part::Lists => after(&step_ends, element),
                Shape::Ragged(_) => after(&ends, element),
            };
            let row = if column.part == Part::Lists { after(&ends, step) } else { step };
            (row, bad)
        };
        let is_list = column.part == Part::Lists;
        let shape_validity = if is_list { nulls(&mut step_validity) } else { validity.clone() };
        let is_scalar = matches!(&column.shape, Shape::Fixed(dims) if dims.is_empty());
        let leaf_validity = if is_scalar { shape_validity.clone() } else { None };
        let leaf = leaf::array(values, &column.leaf, leaf_validity).map_err(|bad| {
            let (row, bad) = rows_of(bad);
            FeatureMismatch::Value { row, expected: bad.expected, found: bad.found }
        })?;
        let shaped = match &column.shape {
            Shape::Fixed(dims) => fixed(leaf, dims, shape_validity.as_ref()),
            Shape::Ragged(dims) => {
                let ends = if is_list { step_ends } else { ends.clone() };
                ragged(fixed(leaf, dims, None), &ends, shape_validity)
            }
        };
        Ok(if is_list { ragged(shaped, &ends, validity) } else { shaped })
    }
}

/// Returns nested lists of fixed lengths. Only the outermost list has nulls.
fn fixed(leaf: ArrayRef, dims: &[usize], validity: Option<&NullBuffer>) -> ArrayRef {
    let mut array = leaf;
    for (index, &dim) in dims.iter().enumerate().rev() {
        let nulls = if index == 0 { validity.cloned() } else { None };
        // The dimension fits in an `i32`, because this was checked when the schema was read.
        let dim = i32::try_from(dim).unwrap_or(i32::MAX);
        let field = item(array.data_type().clone());
        array = Arc::new(FixedSizeListArray::new(field, dim, array, nulls));
    }
    array
}

fn ragged(elements: ArrayRef, ends: &[i32], validity: Option<NullBuffer>) -> ArrayRef {
    let offsets: Vec<i32> = std::iter::once(0).chain(ends.iter().copied()).collect();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let field = item(elements.data_type().clone());
    Arc::new(ListArray::new(field, offsets, elements, validity))
}

fn nulls(validity: &mut NullBufferBuilder) -> Option<NullBuffer> {
    validity.finish().filter(|nulls| nulls.null_count() > 0)
}

/// Returns the index of the range that contains an element, given the ends of the ranges.
fn after(ends: &[i32], element: usize) -> usize {
    ends.partition_point(|&end| usize::try_from(end).is_ok_and(|end| end <= element))
}

/// Converts the number of values in a batch to an offset. `rows.rs` ensures that the number is less
/// than 2^31.
#[inline]
fn length(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
