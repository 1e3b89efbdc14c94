//! Differences between two flows of records: the number of records, the columns, and the values.
//! Values are compared row by row, and the two flows may have different formats.
//!
//! Values of different types can be equal. For example, a 32-bit integer equals a 64-bit integer of
//! the same value. Text equals the number or time that it represents, and a list of one value
//! equals that value. If the number of list levels differs between the two sides, the lists are
//! flattened (see [`encoding`](super::encoding)). Two values are compared in the type of one of the
//! two sides. A value that this type cannot represent counts as different. A null equals a value in
//! a missing column.

use super::cast::cast;
use super::checksum::can_be_cast;
use super::encoding::{RowEncoder, is_text};
use super::flow::Flow;
use super::lists::{depth, leaf_type};
use super::plain;
use super::zones::in_known_zones;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Schema};
use tensorferry_convert::comparison::{ColumnDifference, ColumnDifferenceKind, RecordDiff};
use tensorferry_sdk::records::value_text::ValueTexts;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};

/// Maximum number of characters that a report shows of a value.
const MAX_SHOWN: usize = 60;

/// Compares the records of two flows in order.
pub fn diff(a: &mut dyn Flow, b: &mut dyn Flow) -> Result<RecordDiff> {
    let mut columns = columns(&a.schema(), &b.schema());
    let (mut left, mut right) = (PendingRows::default(), PendingRows::default());
    let mut records = [0; 2];
    loop {
        let (one, other) = (left.fill(a)?, right.fill(b)?);
        let rows = match (one, other) {
            (0, 0) => break,
            // Rows that are in only one flow are counted but not compared.
            (0, rows) | (rows, 0) => rows,
            (one, other) => one.min(other),
        };
        let (one, other) = (left.take(rows), right.take(rows));
        if let (Some(one), Some(other)) = (&one, &other) {
            for column in &mut columns {
                column.compare(records[0], one, other)?;
            }
        }
        for (count, batch) in records.iter_mut().zip([one, other]) {
            *count += batch.map_or(0, |batch| batch.num_rows() as u64);
        }
    }
    let found = columns.len();
    Ok(RecordDiff {
        records,
        columns: found,
        differences: columns.into_iter().filter_map(ComparedColumn::done).collect(),
    })
}

/// The rows of a flow that have been pulled but not compared yet.
#[derive(Default)]
struct PendingRows {
    batch: Option<RecordBatch>,
}

impl PendingRows {
    /// Pulls the next batch if no rows are left. Returns the number of available rows, which is 0
    /// at the end.
    fn fill(&mut self, flow: &mut dyn Flow) -> Result<usize> {
        if self.batch.is_none() {
            self.batch = flow.next()?;
        }
        Ok(self.batch.as_ref().map_or(0, RecordBatch::num_rows))
    }

    fn take(&mut self, rows: usize) -> Option<RecordBatch> {
        let batch = self.batch.take()?;
        if rows < batch.num_rows() {
            self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        Some(batch.slice(0, rows))
    }
}

/// A column that is in A, in B, or in both.
struct ComparedColumn {
    name: String,
    places: [Option<usize>; 2],
    /// The type in which values are compared; `None` if the values cannot be compared.
    compared: Option<DataType>,
    types: [DataType; 2],
    differing: u64,
    first: Option<(u64, [String; 2])>,
}

fn columns(a: &Schema, b: &Schema) -> Vec<ComparedColumn> {
    let place = |schema: &Schema, name: &str| schema.index_of(name).ok();
    let mut names: Vec<&String> = a.fields().iter().map(|field| field.name()).collect();
    names.extend(b.fields().iter().map(|field| field.name()).filter(|name| place(a, name).is_none()));
    let column = |name: &String| {
        let places = [place(a, name), place(b, name)];
        let data_type = |schema: &Schema, place: Option<usize>| {
            place.map_or(DataType::Null, |place| schema.field(place).data_type().clone())
        };
        let types = [data_type(a, places[0]), data_type(b, places[1])];
        let compared = compared_type(&types[0], &types[1]);
        ComparedColumn { name: name.clone(), places, compared, types, differing: 0, first: None }
    };
    names.into_iter().map(column).collect()
}

impl ComparedColumn {
    /// Compares rows of both inputs, starting with record `first`.
    fn compare(&mut self, first: u64, a: &RecordBatch, b: &RecordBatch) -> Result<()> {
        let Some(compared) = &self.compared else { return Ok(()) };
        let rows = a.num_rows();
        let array = |batch: &RecordBatch, place: Option<usize>| {
            place.map_or_else(
                || arrow_array::new_null_array(&DataType::Null, rows),
                |p| batch.column(p).clone(),
            )
        };
        let (a, b) = (array(a, self.places[0]), array(b, self.places[1]));
        if a.data_type() == b.data_type() && *a == *b {
            return Ok(());
        }
        let failed = |e: ArrowError| {
            Error::unsupported(format!("the values cannot be compared: {e}")).column(&self.name)
        };
        let differing = differing(&a, &b, compared).map_err(failed)?;
        if let (Some(&row), None) = (differing.first(), &self.first) {
            let values = [shown(&a, row).map_err(failed)?, shown(&b, row).map_err(failed)?];
            self.first = Some((first + row as u64, values));
        }
        self.differing += differing.len() as u64;
        Ok(())
    }

    fn done(self) -> Option<ColumnDifference> {
        let kind = match (self.compared, self.first, self.places) {
            (None, _, _) => {
                let [a, b] = self.types;
                ColumnDifferenceKind::Type(a.to_string(), b.to_string())
            }
            (_, None, _) => return None,
            (_, Some(_), [_, None]) => ColumnDifferenceKind::Missing,
            (_, Some(_), [None, _]) => ColumnDifferenceKind::Unexpected,
            (_, Some((first, values)), _) => {
                ColumnDifferenceKind::Content { records: self.differing, first, values }
            }
        };
        Some(ColumnDifference { name: self.name, kind })
    }
}

/// Returns the type in which values inside all lists are compared. The order of `a` and `b` does
/// not matter. Returns `None` if the values cannot be compared.
fn compared_type(a: &DataType, b: &DataType) -> Option<DataType> {
    let (a, b) = (plain::compared(a), plain::compared(b));
    let (a, b) = (leaf_type(&a), leaf_type(&b));
    let (from, to) = match (a, b) {
        (DataType::Null, b) => (a, b),
        (a, DataType::Null) => (b, a),
        // Wider floats may have been read from text that has only the digits of the narrower type.
        (a, b) if a.is_floating() && b.is_floating() => {
            if a.primitive_width() < b.primitive_width() {
                (b, a)
            } else {
                (a, b)
            }
        }
        (a, b) if is_text(b) && !is_text(a) || a.is_floating() && !is_text(b) => (b, a),
        (a, b) if a.is_integer() && *b == DataType::Boolean => (b, a),
        (a, b) => (a, b),
    };
    can_be_cast(from, to).then(|| to.clone())
}

/// Returns the rows in which the two columns differ.
fn differing(a: &ArrayRef, b: &ArrayRef, compared: &DataType) -> Result<Vec<usize>, ArrowError> {
    let (a, b) = (&plain::compared_column(a)?, &plain::compared_column(b)?);
    let nested = depth(a.data_type()) == depth(b.data_type());
    let encoder = |column: &ArrayRef| match a.data_type() == b.data_type() {
        true => RowEncoder::nested(column),
        false => RowEncoder::exact(column, compared, nested),
    };
    let encoders = [encoder(a)?, encoder(b)?];
    let mut rows = [Vec::new(), Vec::new()];
    let differs = |&row: &usize| {
        for (encoder, bytes) in encoders.iter().zip(&mut rows) {
            bytes.clear();
            encoder.append(row, bytes);
        }
        rows[0] != rows[1]
    };
    Ok((0..a.len()).filter(differs).collect())
}

fn shown(column: &ArrayRef, row: usize) -> Result<String, ArrowError> {
    let options = FormatOptions::default().with_null("null");
    let column = cast(&column.slice(row, 1), &in_known_zones(column.data_type()), false)?;
    let mut text = String::new();
    if column.data_type().is_nested() || column.is_null(0) {
        text = ArrayFormatter::try_new(&column, &options)?.value(0).to_string();
    } else if ValueTexts::new(&column)?.write(0, &mut text).is_err() {
        text.push('?');
    }
    let mut cut: String = text.chars().take(MAX_SHOWN).flat_map(char::escape_default).collect();
    if text.chars().count() > MAX_SHOWN {
        cut.push_str("...");
    }
    Ok(cut)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::flow::from_fn;
    use arrow_array::types::Int64Type;
    use arrow_array::{
        BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
        ListArray, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    };
    use std::sync::Arc;

    fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
    }

    #[test]
    fn how_values_are_held_in_memory_is_no_difference() {
        let words: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let item = Arc::new(arrow_schema::Field::new("item", DataType::Utf8, true));
        let lists =
            ListArray::new(item.clone(), arrow_buffer::OffsetBuffer::from_lengths([2, 0]), words, None);
        let views = cast(&(Arc::new(lists.clone()) as ArrayRef), &DataType::ListView(item), true).unwrap();
        let keys = arrow_array::Int8Array::from(vec![0, 1]);
        let folded = arrow_array::DictionaryArray::try_new(keys, Arc::new(lists.clone())).unwrap();
        let plain = rows(vec![("c", Arc::new(lists))]);
        for other in [views, Arc::new(folded)] {
            let other = rows(vec![("c", other)]);
            assert!(diff(&mut *flow(&plain, 2), &mut *flow(&other, 1)).unwrap().is_equal());
            assert!(diff(&mut *flow(&other, 2), &mut *flow(&plain, 1)).unwrap().is_equal());
        }
    }

    /// Returns a flow with at most `at_once` rows per batch.
    fn flow(rows: &RecordBatch, at_once: usize) -> Box<dyn Flow + '_> {
        let starts = (0..rows.num_rows()).step_by(at_once);
        let mut batches = starts.map(move |start| rows.slice(start, at_once.min(rows.num_rows() - start)));
        from_fn(rows.schema(), move || Ok(batches.next()))
    }

    fn compared(a: &RecordBatch, b: &RecordBatch) -> RecordDiff {
        let found = diff(&mut *flow(a, 2), &mut *flow(b, 3)).unwrap();
        assert_eq!(found, diff(&mut *flow(a, 100), &mut *flow(b, 1)).unwrap());
        found
    }

    #[test]
    fn types_that_hold_the_same_do_not_differ() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1)]),
            None,
            Some(vec![Some(-3)]),
            Some(vec![Some(4)]),
        ]);
        let a = rows(vec![
            ("n", Arc::new(Int32Array::from(vec![Some(1), None, Some(-3), Some(4)]))),
            ("x", Arc::new(Float32Array::from(vec![0.5, f32::NAN, -0.0, 1.5]))),
            ("none", Arc::new(Int64Array::from(vec![None; 4]))),
        ]);
        let b = rows(vec![
            ("x", Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0, 1.5]))),
            ("n", Arc::new(lists)),
        ]);
        for (a, b) in [(&a, &b), (&b, &a), (&a, &a)] {
            let found = compared(a, b);
            assert!(found.is_equal(), "{found:?}");
            assert_eq!((found.records, found.columns), ([4, 4], 3));
        }
    }

    /// Compares column A with B and column B with A, and checks that the results are the same.
    fn is_equal(a: &ArrayRef, b: &ArrayRef) -> bool {
        let (a, b) = (rows(vec![("x", a.clone())]), rows(vec![("x", b.clone())]));
        let found = compared(&a, &b).is_equal();
        assert_eq!(found, compared(&b, &a).is_equal(), "{a:?} {b:?}");
        found
    }

    #[test]
    fn values_that_a_cast_would_change_differ_in_both_directions() {
        let decimals =
            |value, scale| Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).unwrap();
        let int = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let float = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        let narrow = |value: f32| Arc::new(Float32Array::from(vec![value])) as ArrayRef;
        let decimal = |value: i128, scale: i8| Arc::new(decimals(value, scale)) as ArrayRef;
        let text = |value: &str| Arc::new(StringArray::from(vec![value])) as ArrayRef;
        let is = |value: bool| Arc::new(BooleanArray::from(vec![value])) as ArrayRef;
        let millis = |value: i64| Arc::new(TimestampMillisecondArray::from(vec![value])) as ArrayRef;
        let utc = |value: i64| {
            Arc::new(TimestampMicrosecondArray::from(vec![value]).with_timezone("UTC")) as ArrayRef
        };
        let day = |value: i32| Arc::new(Date32Array::from(vec![value])) as ArrayRef;
        let nested = |lists: [&[i64]; 2], leaf: DataType| {
            let items = ListArray::from_iter_primitive::<Int64Type, _, _>(
                lists.map(|list| Some(list.iter().copied().map(Some).collect::<Vec<_>>())),
            );
            let items = cast(&(Arc::new(items) as ArrayRef), &DataType::new_list(leaf, true), false).unwrap();
            let field = Arc::new(arrow_schema::Field::new("item", items.data_type().clone(), true));
            let ends = arrow_buffer::OffsetBuffer::from_lengths([2]);
            Arc::new(ListArray::new(field, ends, items, None)) as ArrayRef
        };
        let cases = [
            (int(1), float(1.0), true),
            (int(1), float(1.7), false),
            (int((1 << 53) + 1), float(9_007_199_254_740_992.0), false),
            (int((1 << 24) + 1), narrow(16_777_216.0), false),
            (int(1), is(true), true),
            (int(7), is(true), false),
            (narrow(0.1), float(0.1), true),
            (narrow(0.1), float(f64::from(0.1_f32)), true),
            (narrow(0.1), float(0.100_000_000_1), false),
            (narrow(f32::INFINITY), float(1e300), false),
            (narrow(f32::NAN), float(f64::NAN), true),
            (decimal(150, 2), int(1), false),
            (decimal(100, 2), int(1), true),
            (decimal(174, 2), float(1.74), true),
            (decimal(174, 2), float(1.7), false),
            (decimal(123_456_789_012_345_679_995, 1), float(12_345_678_901_234_567_168.0), false),
            (decimal(10, 1), decimal(100, 2), true),
            (decimal(10, 1), decimal(101, 2), false),
            (text("0.910"), float(0.91), true),
            (text("0.92"), float(0.91), false),
            (text("x"), int(1), false),
            (millis(1), utc(1000), true),
            (millis(0), utc(1), false),
            (millis(86_400_000), day(1), true),
            (millis(86_400_001), day(1), false),
            (utc(0), utc(1), false),
            (utc(1_000_000), text("1970-01-01T00:00:01Z"), true),
            (utc(1_000_000), text("1970-01-01T00:00:02Z"), false),
            (nested([&[1], &[2]], DataType::Int64), nested([&[1], &[2]], DataType::Int32), true),
            (nested([&[1], &[2]], DataType::Int64), nested([&[1, 2], &[]], DataType::Int32), false),
        ];
        for (a, b, same) in &cases {
            assert_eq!(is_equal(a, b), *same, "{a:?} {b:?}");
        }
    }

    #[test]
    fn each_column_that_differs_is_named_with_its_first_record() {
        let a = rows(vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]))),
            ("word", Arc::new(StringArray::from(vec!["a", "b", "c", "d", "e"]))),
            ("only", Arc::new(Int64Array::from(vec![None, None, Some(1), None, None]))),
        ]);
        let b = rows(vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2, 7, 8]))),
            ("word", Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("c"), None]))),
            ("new", Arc::new(StringArray::from(vec!["x"; 4]))),
        ]);
        let found = compared(&a, &b);
        assert_eq!((found.records, found.columns, found.is_equal()), ([5, 4], 4, false));
        let said: Vec<String> = found.differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "content: column \"id\": differs in 2 records, first in record 2: 3 in A, 7 in B",
                "content: column \"word\": differs in record 3: d in A, null in B",
                "missing: column \"only\": only A has it",
                "unexpected: column \"new\": only B has it",
            ]
        );
        let shorter = compared(&a, &a.slice(0, 4));
        assert!(shorter.differences.is_empty() && !shorter.is_equal());
    }
}
