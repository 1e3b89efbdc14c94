//! The values of a column for all rows, in row order.

use super::DefaultValues;
use crate::message::{Kind, bytes_values, float_runs, int_values};
use tensorferry_proto::wire::WireError;

#[derive(Debug)]
pub(super) enum Values {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Bytes { data: Vec<u8>, ends: Vec<i32> },
}

impl Values {
    pub(super) fn new(kind: Option<Kind>) -> Self {
        match kind {
            // A feature without a kind has no values.
            Some(Kind::Int64) | None => Self::Ints(Vec::new()),
            Some(Kind::Float) => Self::Floats(Vec::new()),
            Some(Kind::Bytes) => Self::Bytes { data: Vec::new(), ends: Vec::new() },
        }
    }

    /// Returns an empty list of values, with slightly more capacity than this list needed. The
    /// additional capacity avoids a reallocation if the next batch is slightly longer.
    pub(super) fn new_empty(&self) -> Self {
        let room = |len: usize| len + len / 16;
        match self {
            Self::Ints(values) => Self::Ints(Vec::with_capacity(room(values.len()))),
            Self::Floats(values) => Self::Floats(Vec::with_capacity(room(values.len()))),
            Self::Bytes { data, ends } => Self::Bytes {
                data: Vec::with_capacity(room(data.len())),
                ends: Vec::with_capacity(room(ends.len())),
            },
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Bytes { ends, .. } => ends.len(),
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Ints(values) => values.truncate(len),
            Self::Floats(values) => values.truncate(len),
            Self::Bytes { data, ends } => {
                ends.truncate(len);
                data.truncate(ends.last().map_or(0, |&end| usize::try_from(end).unwrap_or(0)));
            }
        }
    }

    /// Appends the values in a list of this kind.
    #[inline]
    pub(super) fn append(&mut self, list: &[u8]) -> Result<(), WireError> {
        match self {
            Self::Ints(values) => int_values(list, values),
            Self::Floats(values) => float_runs(list, |run| {
                values.extend(run.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }),
            Self::Bytes { data, ends } => bytes_values(list, |value| push(data, ends, value)),
        }
    }

    /// Appends `count` placeholder values, which represent a null if the shape is fixed.
    pub(super) fn fill(&mut self, count: usize) {
        let len = self.len() + count;
        match self {
            Self::Ints(values) => values.resize(len, 0),
            Self::Floats(values) => values.resize(len, 0.0),
            Self::Bytes { data, ends } => ends.resize(len, end_of(data)),
        }
    }

    /// Appends the default values of a missing feature.
    pub(super) fn extend(&mut self, default: &DefaultValues) {
        match (self, default) {
            (Self::Ints(values), DefaultValues::Ints(default)) => values.extend(default),
            (Self::Floats(values), DefaultValues::Floats(default)) => values.extend(default),
            (Self::Bytes { data, ends }, DefaultValues::Bytes(default)) => {
                default.iter().for_each(|value| push(data, ends, value));
            }
            // This case does not occur, because the schema reader rejects defaults of a different
            // kind.
            _ => {}
        }
    }
}

#[inline]
fn push(data: &mut Vec<u8>, ends: &mut Vec<i32>, value: &[u8]) {
    data.extend_from_slice(value);
    ends.push(end_of(data));
}

/// Converts the length of a batch's data to an offset. `rows.rs` ensures that the length is less
/// than 2^31.
#[inline]
fn end_of(data: &[u8]) -> i32 {
    i32::try_from(data.len()).unwrap_or(i32::MAX)
}
