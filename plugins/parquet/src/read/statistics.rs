//! Statistics of row groups. If they show that a comparison is false for every row, ferry skips the
//! row group.
//!
//! ferry uses only statistics that all writers define in the same way. These are `min_value` and
//! `max_value`, but not the deprecated `min` and `max`. The column's order (`ColumnOrder`) must be
//! the order that its type defines. Signed numbers do not need a `ColumnOrder`. Truncated strings
//! are valid bounds. NaN is never within bounds, and does not match any comparison that bounds can
//! exclude. Decimals, times, half floats and INT96 are ordered differently in statistics and in
//! comparisons, so their statistics are not used. ferry reads statistics only for columns that a
//! scan compares.

use super::stream::RowGroup;
use super::{OpenFile, footer, leaves};
use parquet::basic::{ColumnOrder, SortOrder};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::Limits;
use tensorferry_sdk::arrow_schema::{DataType, Schema};
use tensorferry_sdk::records::{Bounds, ComparedValue, Comparison};

/// Cached bounds of leaf columns. The map contains the bounds of each leaf in every row group.
#[derive(Debug, Default)]
pub(super) struct BoundsCache(Mutex<HashMap<usize, Arc<Vec<Option<Bounds>>>>>);

impl RowGroup {
    /// Returns whether a comparison with a column of this schema is false for every row of the
    /// group.
    pub(super) fn excludes(&self, schema: &Schema, comparison: &Comparison, limits: &Limits) -> bool {
        let Some(data_type) = compared_type(schema, &comparison.column) else { return false };
        let descriptor = self.file.metadata.file_metadata().schema_descr();
        let Ok(leaf) = leaves::of(descriptor, &comparison.column) else { return false };
        let bounds = self.file.bounds_of(leaf.start, data_type, limits);
        bounds.get(self.index).and_then(Option::as_ref).is_some_and(|bounds| comparison.excludes(bounds))
    }
}

/// Returns the type of a column, or of a field inside structs. Returns `None` if that type is
/// nested.
fn compared_type<'a>(schema: &'a Schema, path: &[usize]) -> Option<&'a DataType> {
    let (&first, rest) = path.split_first()?;
    let mut data_type = schema.fields().get(first)?.data_type();
    for &place in rest {
        let DataType::Struct(fields) = data_type else { return None };
        data_type = fields.get(place)?.data_type();
    }
    if let DataType::Dictionary(_, value) = data_type {
        data_type = value;
    }
    (!data_type.is_nested()).then_some(data_type)
}

impl OpenFile {
    /// Returns the bounds of a leaf column in each row group, or an empty list if the statistics
    /// cannot be read.
    fn bounds_of(&self, leaf: usize, data_type: &DataType, limits: &Limits) -> Arc<Vec<Option<Bounds>>> {
        let mut known = self.bounds.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = known.entry(leaf).or_insert_with(|| {
            let read = footer::with_statistics(&self.file, leaf, limits);
            // If the footer has changed since the first read, closing the file reports the error.
            let same = read.ok().filter(|read| read.num_row_groups() == self.metadata.num_row_groups());
            let groups =
                same.iter().flat_map(|read| read.row_groups().iter().map(move |group| (read, group)));
            Arc::new(groups.map(|(read, group)| bounds(read, group, leaf, data_type)).collect())
        });
        bounds.clone()
    }
}

fn bounds(
    metadata: &ParquetMetaData,
    group: &RowGroupMetaData,
    leaf: usize,
    data_type: &DataType,
) -> Option<Bounds> {
    let statistics = group.columns().get(leaf)?.statistics()?;
    let (min, max) = match metadata.file_metadata().column_order(leaf) {
        _ if statistics.is_min_max_deprecated() => (None, None),
        ColumnOrder::UNDEFINED if !data_type.is_signed_integer() => (None, None),
        ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNDEFINED) => (None, None),
        _ => values(statistics, data_type),
    };
    let is_ordered = match (&min, &max) {
        (Some(min), Some(max)) => min.compare(max).is_some_and(Ordering::is_le),
        _ => true,
    };
    let (min, max) = if is_ordered { (min, max) } else { (None, None) };
    let rows = u64::try_from(group.num_rows()).ok()?;
    // A null count that is larger than the number of rows is ignored.
    let nulls = statistics.null_count_opt().filter(|&nulls| nulls <= rows);
    Some(Bounds { min, max, nulls, rows })
}

/// Returns the minimum and the maximum, if comparisons and statistics order the type in the same
/// way.
fn values(statistics: &Statistics, data_type: &DataType) -> (Option<ComparedValue>, Option<ComparedValue>) {
    use DataType as Arrow;
    fn min_max<T>(
        min: Option<&T>,
        max: Option<&T>,
        value: impl Fn(&T) -> Option<ComparedValue>,
    ) -> (Option<ComparedValue>, Option<ComparedValue>) {
        (min.and_then(&value), max.and_then(&value))
    }
    let float = |value: f64| Some(ComparedValue::Float(value)).filter(|_| !value.is_nan());
    match (statistics, data_type) {
        (Statistics::Boolean(of), Arrow::Boolean) => {
            min_max(of.min_opt(), of.max_opt(), |&value| Some(ComparedValue::Bool(value)))
        }
        (Statistics::Int32(of), Arrow::Int8 | Arrow::Int16 | Arrow::Int32) => {
            min_max(of.min_opt(), of.max_opt(), |&value| Some(ComparedValue::Int(value.into())))
        }
        (Statistics::Int32(of), Arrow::UInt8 | Arrow::UInt16 | Arrow::UInt32) => {
            min_max(of.min_opt(), of.max_opt(), |&value| {
                Some(ComparedValue::Int(value.cast_unsigned().into()))
            })
        }
        (Statistics::Int64(of), Arrow::Int64) => {
            min_max(of.min_opt(), of.max_opt(), |&value| Some(ComparedValue::Int(value.into())))
        }
        (Statistics::Int64(of), Arrow::UInt64) => min_max(of.min_opt(), of.max_opt(), |&value| {
            Some(ComparedValue::Int(value.cast_unsigned().into()))
        }),
        (Statistics::Float(of), Arrow::Float32) => {
            min_max(of.min_opt(), of.max_opt(), |&value| float(value.into()))
        }
        (Statistics::Double(of), Arrow::Float64) => {
            min_max(of.min_opt(), of.max_opt(), |&value| float(value))
        }
        (
            Statistics::ByteArray(of),
            Arrow::Utf8
            | Arrow::LargeUtf8
            | Arrow::Utf8View
            | Arrow::Binary
            | Arrow::LargeBinary
            | Arrow::BinaryView,
        ) => min_max(of.min_opt(), of.max_opt(), |value| Some(ComparedValue::Bytes(value.data().to_vec()))),
        _ => (None, None),
    }
}
