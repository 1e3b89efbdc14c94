//! A view is a column in the form that the encoder needs. It contains the consecutive values of all
//! rows, converted to the type of the feature's list. The view also contains the position of each
//! row in these values.

use super::leaf::{Leaf, leaf};
use super::losses::Losses;
use crate::message::Kind;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};
use std::ops::Range;

pub(super) struct View {
    /// The rows in which the feature is missing.
    nulls: Option<NullBuffer>,
    /// The lists around a value, outermost first.
    levels: Vec<Level>,
    pub(super) leaf: Leaf,
    leaf_nulls: Option<NullBuffer>,
}

/// One level of lists around values.
struct Level {
    lengths: ListLengths,
    /// The lists that are null. At the outermost level, each list is a row.
    nulls: Option<NullBuffer>,
}

enum ListLengths {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    Fixed(usize),
}

impl Level {
    /// Returns the range of elements that some consecutive lists contain.
    fn elements(&self, lists: &Range<usize>) -> Range<usize> {
        // The offsets of an array in memory are nonnegative and fit in a `usize`.
        let place = |offset: i64| usize::try_from(offset).unwrap_or(0);
        match &self.lengths {
            ListLengths::Small(ends) => place(ends[lists.start].into())..place(ends[lists.end].into()),
            ListLengths::Large(ends) => place(ends[lists.start])..place(ends[lists.end]),
            ListLengths::Fixed(len) => lists.start * len..lists.end * len,
        }
    }
}

impl View {
    /// Opens a view on the column at `path`.
    pub(super) fn new(
        batch: &RecordBatch,
        path: &[usize],
        kind: Kind,
        feature: usize,
        losses: &mut Losses,
    ) -> Result<Self, ArrowError> {
        let (&first, inner) =
            path.split_first().ok_or_else(|| ArrowError::SchemaError("no column".to_owned()))?;
        let mut array = batch.columns()[first].clone();
        let mut nulls = array.logical_nulls();
        for &place in inner {
            array = array.as_struct().column(place).clone();
            nulls = NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref());
        }
        let mut levels = Vec::new();
        loop {
            let (lengths, values) = match array.data_type() {
                DataType::List(_) => {
                    let list = array.as_list::<i32>();
                    (ListLengths::Small(list.offsets().clone()), list.values().clone())
                }
                DataType::LargeList(_) => {
                    let list = array.as_list::<i64>();
                    (ListLengths::Large(list.offsets().clone()), list.values().clone())
                }
                DataType::FixedSizeList(_, len) => {
                    let list = array.as_fixed_size_list();
                    // The length of a `FixedSizeList` is nonnegative.
                    (ListLengths::Fixed(usize::try_from(*len).unwrap_or(0)), list.values().clone())
                }
                _ => break,
            };
            levels.push(Level { lengths, nulls: array.nulls().cloned() });
            array = values;
        }
        // In a column without lists, the nulls are missing rows.
        let leaf_nulls =
            if levels.is_empty() { None } else { array.logical_nulls().filter(|n| n.null_count() > 0) };
        let leaf = leaf(&array, kind, feature, losses)?;
        Ok(Self { nulls, levels, leaf, leaf_nulls })
    }

    /// Returns whether a row has the feature.
    #[inline]
    pub(super) fn has(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// Returns the steps of a row's feature list. Each item contains the index of a list at the
    /// next level, and whether this list is null.
    pub(super) fn steps(&self, row: usize) -> impl Iterator<Item = (usize, bool)> + '_ {
        let steps = self.levels.first().map_or(row..row + 1, |level| level.elements(&(row..row + 1)));
        let nulls = match self.levels.get(1) {
            Some(level) => level.nulls.as_ref(),
            None => self.leaf_nulls.as_ref(),
        };
        steps.map(move |step| (step, nulls.is_some_and(|nulls| nulls.is_null(step))))
    }

    /// Visits the values in one element of a level as ranges, in order. Level 0 contains the rows.
    /// Returns the number of nulls that were dropped.
    #[inline]
    pub(super) fn values(&self, level: usize, element: usize, visit: &mut dyn FnMut(Range<usize>)) -> u64 {
        let Some(first) = self.levels.get(level) else {
            visit(element..element + 1);
            return 0;
        };
        let elements = first.elements(&(element..element + 1));
        self.walk(level + 1, elements, visit)
    }

    /// Visits the values in several elements of a level as ranges.
    fn walk(&self, level: usize, elements: Range<usize>, visit: &mut dyn FnMut(Range<usize>)) -> u64 {
        let (inner, nulls) = match self.levels.get(level) {
            Some(inner) => (Some(inner), inner.nulls.as_ref()),
            None => (None, self.leaf_nulls.as_ref()),
        };
        let mut go = |elements: Range<usize>| match inner {
            Some(inner) => self.walk(level + 1, inner.elements(&elements), visit),
            None => {
                visit(elements);
                0
            }
        };
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return go(elements) };
        let mut left_out = 0;
        for element in elements {
            left_out += if nulls.is_valid(element) { go(element..element + 1) } else { 1 };
        }
        left_out
    }
}
