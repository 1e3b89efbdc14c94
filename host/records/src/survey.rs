//! A survey describes all rows of an input. It reports the number of rows and, for each column, the
//! number of nulls, the number of values per row, and the range of the values. A survey decodes
//! every record.

pub mod distinct;
pub mod value_statistics;

use super::batch_bytes::batch_bytes;
use super::flow::BATCH_ROWS;
use super::progress::{self, SplitProgress};
use super::rows::Rows;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, downcast_primitive_array,
};
use arrow_schema::{DataType, FieldRef};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tensorferry_core::context::session::Session;
use tensorferry_sdk::records::{Batches, from_stream};
use tensorferry_sdk::{Context, Result, arrow_array, arrow_schema};
use value_statistics::ValueStatistics;

/// Statistics of an input's rows.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Number of rows.
    pub records: u64,
    /// Size in bytes of the rows in memory.
    pub bytes: u64,
    /// The statistics of the columns, in the schema's order.
    pub columns: Vec<ColumnSurvey>,
}

/// Statistics of one column's values.
#[derive(Debug, Clone)]
pub struct ColumnSurvey {
    /// The name and type of the column.
    pub field: FieldRef,
    /// Number of rows in which the column is null.
    pub missing: u64,
    /// The distribution of the number of values in a non-null row. Without lists, a row always has
    /// one value.
    pub lengths: LengthStatistics,
    /// The distribution of the lengths in bytes, for strings and binary values.
    pub sizes: LengthStatistics,
    /// The range of the values, if the values are numbers.
    pub range: ValueRange,
    /// Detailed statistics of the values, if the caller requested them.
    pub detail: Option<ValueStatistics>,
}

/// The distribution of lengths.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LengthStatistics {
    /// Number of lengths.
    pub count: u64,
    pub min: u64,
    pub max: u64,
    /// Sum of the lengths.
    pub total: u64,
    /// The histogram: for each bound (0, 1, 2, 4, 8, ...), the number of lengths that are at most
    /// this bound but above the previous bound.
    pub up_to: BTreeMap<u64, u64>,
}

impl LengthStatistics {
    /// Returns the distribution of these lengths. The lengths are first counted in an array,
    /// because a map access for each length would take as long as decoding the row.
    fn of(lens: impl Iterator<Item = u64>) -> Self {
        let (mut min, mut max, mut total) = (u64::MAX, 0, 0);
        let mut times = [0_u64; 66];
        for len in lens {
            min = min.min(len);
            max = max.max(len);
            total += len;
            // The index is 0 for length 0, and otherwise 1 plus the number of bits in `len - 1`.
            times[if len == 0 { 0 } else { 1 + (u64::BITS - (len - 1).leading_zeros()) as usize }] += 1;
        }
        let count = times.iter().sum();
        let bound = |place: usize| match place {
            0 => 0,
            65 => u64::MAX,
            place => 1 << (place - 1),
        };
        let up_to = times.iter().enumerate().filter(|(_, times)| **times > 0);
        let up_to = up_to.map(|(place, times)| (bound(place), *times)).collect();
        Self { count, min: if count == 0 { 0 } else { min }, max, total, up_to }
    }

    fn add(&mut self, len: u64, times: u64) {
        if times > 0 {
            let one = Self::of(std::iter::once(len));
            let up_to = one.up_to.into_keys().map(|bound| (bound, times)).collect();
            self.merge(&Self { count: times, total: len * times, up_to, ..one });
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.total += other.total;
        for (bound, times) in &other.up_to {
            *self.up_to.entry(*bound).or_default() += times;
        }
    }

    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

/// The smallest and the largest number in a column, excluding NaN.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ValueRange {
    pub integers: Option<(i128, i128)>,
    pub floats: Option<(f64, f64)>,
    /// Number of NaN values.
    pub nan: u64,
}

impl ValueRange {
    fn integers(&mut self, low: i128, high: i128) {
        let (a, b) = self.integers.unwrap_or((low, high));
        self.integers = Some((a.min(low), b.max(high)));
    }

    fn floats(&mut self, low: f64, high: f64) {
        let (a, b) = self.floats.unwrap_or((low, high));
        self.floats = Some((a.min(low), b.max(high)));
    }

    fn merge(&mut self, other: &Self) {
        if let Some((low, high)) = other.integers {
            self.integers(low, high);
        }
        if let Some((low, high)) = other.floats {
            self.floats(low, high);
        }
        self.nan += other.nan;
    }
}

/// Approximate size in bytes of a batch. A batch of this size remains in the cache until it is
/// examined.
const BATCH_BYTES: u64 = 1 << 20;

/// Decodes all rows. The splits are decoded in parallel. If `in_detail` is set, also computes the
/// [`ValueStatistics`] of each column. If there are several errors, returns the first error in the
/// order of the input.
pub fn survey(rows: &Rows<'_>, in_detail: bool, session: &Session) -> Result<Survey> {
    let splits = 0..rows.set.splits().len();
    progress::begin(rows, splits.clone(), session);
    // The distinct values of each split are merged as soon as the split ends, so that memory
    // contains at most one set per thread. The order of merging does not matter.
    let distinct: Mutex<Vec<ValueStatistics>> = Mutex::default();
    let of_split = |split| {
        let mut found = survey_split(rows, split, in_detail, session).map_err(|error| (split, error))?;
        let mut all = distinct.lock().unwrap_or_else(PoisonError::into_inner);
        all.resize_with(found.columns.len(), ValueStatistics::default);
        for (all, column) in all.iter_mut().zip(&mut found.columns) {
            let of_split = column.detail.as_mut().and_then(|detail| detail.distinct.take());
            all.merge(ValueStatistics { distinct: of_split, ..ValueStatistics::default() });
        }
        Ok(found)
    };
    let found: Vec<Result<Survey, (usize, _)>> = splits.into_par_iter().map(of_split).collect();
    let mut all = Survey::empty(rows, in_detail);
    let distinct = distinct.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (column, distinct) in all.columns.iter_mut().zip(distinct) {
        column.detail.iter_mut().for_each(|detail| detail.merge(distinct.clone()));
    }
    for found in found {
        let found = found.map_err(|(_, error)| error)?;
        all.records += found.records;
        all.bytes += found.bytes;
        for (column, other) in all.columns.iter_mut().zip(&found.columns) {
            column.missing += other.missing;
            column.lengths.merge(&other.lengths);
            column.sizes.merge(&other.sizes);
            column.range.merge(&other.range);
            if let (Some(detail), Some(other)) = (&mut column.detail, &other.detail) {
                detail.merge(other.clone());
            }
        }
    }
    Ok(all)
}

fn survey_split(rows: &Rows<'_>, split: usize, in_detail: bool, session: &Session) -> Result<Survey> {
    let mut survey = Survey::empty(rows, in_detail);
    let mut progress = SplitProgress::new(rows, split, session);
    let batches = Batches { columns: None, rows: BATCH_ROWS, bytes: BATCH_BYTES };
    for batch in rows.set.stream(split, &batches).map_err(|e| rows.place(e))? {
        session.check_cancelled()?;
        let batch = batch.map_err(|error| rows.place(from_stream(error)))?;
        session.count(survey.add(&batch));
        progress.update();
    }
    progress.end();
    Ok(survey)
}

impl Survey {
    fn empty(rows: &Rows<'_>, in_detail: bool) -> Self {
        let column = |field: &FieldRef| ColumnSurvey {
            field: field.clone(),
            missing: 0,
            lengths: LengthStatistics::default(),
            sizes: LengthStatistics::default(),
            range: ValueRange::default(),
            detail: in_detail.then(ValueStatistics::default),
        };
        let columns = rows.set.schema().fields().iter().map(column).collect();
        Self { records: 0, bytes: 0, columns }
    }

    /// Adds the rows of a batch to the statistics, and returns their size in bytes.
    fn add(&mut self, batch: &RecordBatch) -> u64 {
        let bytes = batch_bytes(batch);
        self.records += batch.num_rows() as u64;
        self.bytes += bytes;
        for (survey, column) in self.columns.iter_mut().zip(batch.columns()) {
            survey.add(column);
        }
        bytes
    }
}

impl ColumnSurvey {
    fn add(&mut self, column: &ArrayRef) {
        let missing = column.logical_null_count() as u64;
        self.missing += missing;
        match column.data_type() {
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                self.lengths.merge(&spread(list.value_offsets(), list));
                let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
                let (first, last) = (usize::try_from(first).unwrap_or(0), usize::try_from(last).unwrap_or(0));
                self.add_values(&list.values().slice(first, last - first));
            }
            DataType::FixedSizeList(_, len) => {
                let present = column.len() as u64 - missing;
                self.lengths.add(u64::try_from(*len).unwrap_or(0), present);
                self.add_values(column.as_fixed_size_list().values());
            }
            _ => {
                self.lengths.add(1, column.len() as u64 - missing);
                self.add_values(column);
            }
        }
    }

    /// Adds the values inside all lists to the statistics.
    fn add_values(&mut self, values: &ArrayRef) {
        let values: &dyn Array = values.as_ref();
        if let Some(detail) = &mut self.detail {
            detail.add(values);
        }
        match values.data_type() {
            DataType::List(_) => self.add_values(values.as_list::<i32>().values()),
            DataType::LargeList(_) => self.add_values(values.as_list::<i64>().values()),
            DataType::FixedSizeList(..) => self.add_values(values.as_fixed_size_list().values()),
            DataType::Utf8 => self.sizes.merge(&spread(values.as_string::<i32>().value_offsets(), values)),
            DataType::Binary => self.sizes.merge(&spread(values.as_binary::<i32>().value_offsets(), values)),
            DataType::LargeUtf8 => {
                self.sizes.merge(&spread(values.as_string::<i64>().value_offsets(), values));
            }
            DataType::LargeBinary => {
                self.sizes.merge(&spread(values.as_binary::<i64>().value_offsets(), values));
            }
            DataType::Boolean => {
                let trues = values.as_boolean().true_count();
                if trues > 0 {
                    self.range.integers(1, 1);
                }
                if trues < values.len() - values.null_count() {
                    self.range.integers(0, 0);
                }
            }
            _ => downcast_primitive_array!(
                values => self.range.merge(&range_of(values)),
                _ => {}
            ),
        }
    }
}

/// Returns the distribution of row lengths, which are computed from the rows' offsets. Null rows
/// are excluded.
fn spread<O: Copy + TryInto<u64>>(offsets: &[O], array: &dyn Array) -> LengthStatistics {
    let len = |pair: &[O]| -> u64 {
        let [start, end] = [pair[0], pair[1]].map(|at| at.try_into().unwrap_or(0));
        end - start
    };
    match array.nulls() {
        None => LengthStatistics::of(offsets.windows(2).map(len)),
        Some(nulls) => LengthStatistics::of(nulls.valid_indices().map(|row| len(&offsets[row..row + 2]))),
    }
}

/// Returns the range of an array's values, excluding nulls.
fn range_of<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> ValueRange
where
    T::Native: RangedValue,
{
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            let present: Vec<T::Native> = array.iter().flatten().collect();
            range_of_values(&present)
        }
        _ => range_of_values(array.values()),
    }
}

fn range_of_values<N: RangedValue>(values: &[N]) -> ValueRange {
    let Some(&first) = values.iter().find(|value| !value.is_nan()) else {
        return ValueRange { nan: values.len() as u64, ..ValueRange::default() };
    };
    // The loop uses eight independent lanes, so that no comparison waits for the previous one.
    let (mut low, mut high, mut nan) = ([first; 8], [first; 8], 0);
    // The counts of NaN, one per lane, cannot overflow in a chunk of this size.
    for values in values.chunks(1 << 20) {
        let mut nans = [0_u32; 8];
        let mut see = |lane: usize, value: N| {
            // Both comparisons are false for NaN, so NaN does not change the range.
            low[lane] = if value < low[lane] { value } else { low[lane] };
            high[lane] = if value > high[lane] { value } else { high[lane] };
            nans[lane] += u32::from(value.is_nan());
        };
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            (0..8).for_each(|lane| see(lane, eight[lane]));
        }
        rest.iter().for_each(|&value| see(0, value));
        nan += nans.into_iter().map(u64::from).sum::<u64>();
    }
    let mut range = ValueRange { nan, ..ValueRange::default() };
    for (low, high) in low.into_iter().zip(high) {
        low.put(high, &mut range);
    }
    range
}

/// A type of numbers for which a range may be computed.
trait RangedValue: Copy + PartialOrd {
    fn is_nan(self) -> bool {
        false
    }

    fn put(self, _high: Self, _range: &mut ValueRange) {}
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl RangedValue for $type {
            fn put(self, high: Self, range: &mut ValueRange) {
                range.integers(i128::from(self), i128::from(high));
            }
        }
    )* };
}

integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

macro_rules! floats {
    ($($type:ty),*) => { $(
        impl RangedValue for $type {
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }

            fn put(self, high: Self, range: &mut ValueRange) {
                range.floats(f64::from(self), f64::from(high));
            }
        }
    )* };
}

floats!(f32, f64, half::f16);

// No range is computed for these types, because their values are wider than the numbers that ferry
// displays, or consist of several numbers.
impl RangedValue for arrow_buffer::i256 {}
impl RangedValue for arrow_buffer::IntervalDayTime {}
impl RangedValue for arrow_buffer::IntervalMonthDayNano {}
