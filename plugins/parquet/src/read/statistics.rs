//! What a row group's statistics say of a column: a comparison that they show to be true of no row leaves the whole group
//! out.
//!
//! Only what every writer means alike is believed: `min_value` and `max_value` of columns whose order is the type's own
//! (`ColumnOrder`; of signed numbers also without one), not the deprecated `min` and `max`. Truncated texts are still
//! bounds. NaN is in no bounds, and matches no comparison that bounds can exclude. Decimals, times, halves and INT96 have
//! orders that comparisons do not have: they exclude nothing.

use super::leaves;
use super::stream::RowGroup;
use parquet::basic::{ColumnOrder, SortOrder};
use parquet::file::statistics::Statistics;
use std::cmp::Ordering;
use tensorferry_sdk::arrow_schema::{DataType, Schema};
use tensorferry_sdk::records::{Bounds, Comparison, Value};

impl RowGroup {
    /// Whether a comparison of a column of this schema is true of no row of the group.
    pub(super) fn excludes(&self, schema: &Schema, comparison: &Comparison) -> bool {
        self.bounds(schema, &comparison.column).is_some_and(|bounds| comparison.excludes(&bounds))
    }

    fn bounds(&self, schema: &Schema, path: &[usize]) -> Option<Bounds> {
        let (&first, rest) = path.split_first()?;
        let mut data_type = schema.fields().get(first)?.data_type();
        for &place in rest {
            let DataType::Struct(fields) = data_type else { return None };
            data_type = fields.get(place)?.data_type();
        }
        if let DataType::Dictionary(_, value) = data_type {
            data_type = value;
        }
        if data_type.is_nested() {
            return None;
        }
        let metadata = &self.file.metadata;
        let leaf = leaves::of(metadata.file_metadata().schema_descr(), path).ok()?.start;
        let group = metadata.row_group(self.index);
        let statistics = group.columns().get(leaf)?.statistics()?;
        let (least, greatest) = match metadata.file_metadata().column_order(leaf) {
            _ if statistics.is_min_max_deprecated() => (None, None),
            ColumnOrder::UNDEFINED if !data_type.is_signed_integer() => (None, None),
            ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNDEFINED) => (None, None),
            _ => values(statistics, data_type),
        };
        let is_ordered = match (&least, &greatest) {
            (Some(least), Some(greatest)) => least.compare(greatest).is_some_and(Ordering::is_le),
            _ => true,
        };
        let (least, greatest) = if is_ordered { (least, greatest) } else { (None, None) };
        let rows = u64::try_from(group.num_rows()).ok()?;
        // One that counts more nulls than rows says nothing.
        let nulls = statistics.null_count_opt().filter(|&nulls| nulls <= rows);
        Some(Bounds { least, greatest, nulls, rows })
    }
}

/// The least and the greatest value, where a comparison has the same order.
fn values(statistics: &Statistics, data_type: &DataType) -> (Option<Value>, Option<Value>) {
    use DataType as Arrow;
    fn both<T>(least: Option<&T>, greatest: Option<&T>, value: impl Fn(&T) -> Option<Value>) -> (Option<Value>, Option<Value>) {
        (least.and_then(&value), greatest.and_then(&value))
    }
    let float = |value: f64| Some(Value::Float(value)).filter(|_| !value.is_nan());
    match (statistics, data_type) {
        (Statistics::Boolean(of), Arrow::Boolean) => {
            both(of.min_opt(), of.max_opt(), |&value| Some(Value::Bool(value)))
        }
        (Statistics::Int32(of), Arrow::Int8 | Arrow::Int16 | Arrow::Int32) => {
            both(of.min_opt(), of.max_opt(), |&value| Some(Value::Int(value.into())))
        }
        (Statistics::Int32(of), Arrow::UInt8 | Arrow::UInt16 | Arrow::UInt32) => {
            both(of.min_opt(), of.max_opt(), |&value| Some(Value::Int(value.cast_unsigned().into())))
        }
        (Statistics::Int64(of), Arrow::Int64) => {
            both(of.min_opt(), of.max_opt(), |&value| Some(Value::Int(value.into())))
        }
        (Statistics::Int64(of), Arrow::UInt64) => {
            both(of.min_opt(), of.max_opt(), |&value| Some(Value::Int(value.cast_unsigned().into())))
        }
        (Statistics::Float(of), Arrow::Float32) => {
            both(of.min_opt(), of.max_opt(), |&value| float(value.into()))
        }
        (Statistics::Double(of), Arrow::Float64) => both(of.min_opt(), of.max_opt(), |&value| float(value)),
        (
            Statistics::ByteArray(of),
            Arrow::Utf8
            | Arrow::LargeUtf8
            | Arrow::Utf8View
            | Arrow::Binary
            | Arrow::LargeBinary
            | Arrow::BinaryView,
        ) => both(of.min_opt(), of.max_opt(), |value| Some(Value::Bytes(value.data().to_vec()))),
        _ => (None, None),
    }
}
