//! Computes distributions of the values in the first rows of a dataset: histograms of numbers and
//! the most frequent strings. Also collects images.

use super::pictures::Pictures;
use super::truncated;
use serde_json::{Value, json};
use std::collections::HashMap;
use tensorferry::Session;
use tensorferry::rows::Flow;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::{Context, Result};

/// Number of bins of a histogram.
const BINS: usize = 40;
/// Maximum number of numbers collected per column, because a row may be a list of millions.
const MAX_NUMBERS: usize = 1 << 18;
/// Maximum number of distinct strings collected per column, and maximum number of strings shown.
const MAX_TEXTS: usize = 1 << 13;
const MAX_SHOWN: usize = 8;
/// Maximum number of characters of a string.
const MAX_TEXT_CHARACTERS: usize = 80;

pub(super) struct Sample {
    /// The columns that contain numbers or strings, each with its name and distribution.
    pub(super) columns: Vec<(String, Value)>,
    /// The images that the columns contain.
    pub(super) pictures: Vec<Value>,
}

/// Collects a sample from all rows of `flow`.
pub(super) fn sample(flow: &mut dyn Flow, session: &Session) -> Result<Sample> {
    let names: Vec<String> = flow.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut columns: Vec<ColumnSample> = names.iter().map(|_| ColumnSample::default()).collect();
    let mut pictures = Pictures::default();
    let mut rows = 0;
    while let Some(batch) = flow.next()? {
        session.check_cancelled()?;
        for ((column, name), array) in columns.iter_mut().zip(&names).zip(batch.columns()) {
            column.add(array);
            pictures.add(name, rows, array);
        }
        rows += batch.num_rows();
    }
    let columns =
        names.into_iter().zip(columns).filter_map(|(name, column)| Some((name, column.json(rows)?)));
    Ok(Sample { columns: columns.collect(), pictures: pictures.found })
}

#[derive(Default)]
struct ColumnSample {
    numbers: Vec<f64>,
    texts: HashMap<String, u64>,
}

macro_rules! numbers {
    ($array:expr, $type:ty) => {
        $array.as_primitive::<$type>().iter().flatten().map(|number| number as f64)
    };
}

impl ColumnSample {
    /// Adds the values of an array. If the array contains lists, adds each item of the lists.
    fn add(&mut self, array: &ArrayRef) {
        let room = MAX_NUMBERS.saturating_sub(self.numbers.len());
        let numbers = &mut self.numbers;
        match array.data_type() {
            DataType::List(_) => self.add(&own_values(array.as_list::<i32>())),
            DataType::LargeList(_) => self.add(&own_values(array.as_list::<i64>())),
            DataType::FixedSizeList(..) => self.add(array.as_fixed_size_list().values()),
            DataType::Int8 => numbers.extend(numbers!(array, Int8Type).take(room)),
            DataType::Int16 => numbers.extend(numbers!(array, Int16Type).take(room)),
            DataType::Int32 => numbers.extend(numbers!(array, Int32Type).take(room)),
            DataType::Int64 => numbers.extend(numbers!(array, Int64Type).take(room)),
            DataType::UInt8 => numbers.extend(numbers!(array, UInt8Type).take(room)),
            DataType::UInt16 => numbers.extend(numbers!(array, UInt16Type).take(room)),
            DataType::UInt32 => numbers.extend(numbers!(array, UInt32Type).take(room)),
            DataType::UInt64 => numbers.extend(numbers!(array, UInt64Type).take(room)),
            DataType::Float32 => numbers.extend(numbers!(array, Float32Type).take(room)),
            DataType::Float64 => numbers.extend(numbers!(array, Float64Type).take(room)),
            DataType::Utf8 => array.as_string::<i32>().iter().flatten().for_each(|text| self.count(text)),
            DataType::LargeUtf8 => {
                array.as_string::<i64>().iter().flatten().for_each(|text| self.count(text));
            }
            DataType::Boolean => {
                array
                    .as_boolean()
                    .iter()
                    .flatten()
                    .for_each(|is| self.count(if is { "true" } else { "false" }));
            }
            _ => {}
        }
    }

    fn count(&mut self, text: &str) {
        let (text, _) = truncated(text, MAX_TEXT_CHARACTERS);
        if self.texts.len() < MAX_TEXTS || self.texts.contains_key(&text) {
            *self.texts.entry(text).or_default() += 1;
        }
    }

    fn json(mut self, rows: usize) -> Option<Value> {
        self.numbers.retain(|number| number.is_finite());
        if !self.numbers.is_empty() {
            return Some(json!({ "rows": rows, "histogram": histogram(&self.numbers) }));
        }
        let mut texts: Vec<(String, u64)> = self.texts.into_iter().collect();
        texts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        // If all strings are distinct, none of them counts as frequent.
        if texts.first().is_none_or(|(_, count)| *count < 2) {
            return None;
        }
        texts.truncate(MAX_SHOWN);
        Some(json!({ "rows": rows, "top": texts }))
    }
}

/// Returns only the values that belong to the list's own rows. A batch may be a slice of a longer
/// batch and share its array of values.
fn own_values<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> ArrayRef {
    let offsets = list.value_offsets();
    let [first, last] = [offsets[0], offsets[list.len()]].map(|at| at.as_usize());
    list.values().slice(first, last - first)
}

/// Counts how many numbers are in each of several equally wide bins.
fn histogram(numbers: &[f64]) -> Value {
    let mut from = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let mut to = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if from == to {
        (from, to) = (from - 0.5, to + 0.5);
    }
    let mut counts = [0_u64; BINS];
    for number in numbers {
        // Dividing the operands by two avoids an overflow, because the difference between the
        // largest and the smallest number may not be finite.
        let share = (number / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0);
        let place = (share * BINS as f64).clamp(0.0, (BINS - 1) as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bins")]
        let place = place as usize;
        counts[place] += 1;
    }
    json!({ "from": from, "to": to, "counts": counts.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tensorferry_sdk::arrow_array::{LargeListArray, ListArray};

    #[test]
    fn of_a_slice_the_other_rows_do_not_count() {
        let rows = || [Some(vec![Some(1), Some(2)]), Some(vec![Some(30)]), Some(vec![Some(4)])];
        let short = ListArray::from_iter_primitive::<Int32Type, _, _>(rows()).slice(1, 1);
        let large = LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows()).slice(1, 1);
        for array in [Arc::new(short) as ArrayRef, Arc::new(large)] {
            let mut column = ColumnSample::default();
            column.add(&array);
            assert_eq!(column.numbers, [30.0]);
        }
    }

    #[test]
    fn every_number_lies_in_a_bin() {
        let found = histogram(&[0.0, 1.0, 2.0, 40.0]);
        assert_eq!((&found["from"], &found["to"]), (&json!(0.0), &json!(40.0)));
        assert_eq!(
            (&found["counts"][0], &found["counts"][1], &found["counts"][39]),
            (&json!(1), &json!(1), &json!(1))
        );
        let wide = histogram(&[-f64::MAX, f64::MAX, 0.0]);
        assert_eq!(
            wide["counts"].as_array().map(|all| all.iter().filter_map(Value::as_u64).sum::<u64>()),
            Some(3)
        );
        assert_eq!(histogram(&[7.0])["counts"][20], 1);
    }
}
