//! Detailed statistics of a column: the number of distinct values, and the mean and deviation of
//! all values. Computing them takes more time than computing the range.

use super::distinct::{Distinct, mixed};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, downcast_primitive_array};
use arrow_schema::DataType;
use std::hash::{DefaultHasher, Hasher};
use tensorferry_sdk::{arrow_array, arrow_schema};
use tensorferry_tensors::statistics::Moments;

/// Detailed statistics of the values inside all lists, excluding nulls.
#[derive(Debug, Clone, Default)]
pub struct ValueStatistics {
    /// The distinct values; `None` for a type whose values are not compared. Positive and negative
    /// zero count as one value, and all NaN values count as one value.
    pub distinct: Option<Distinct>,
    /// The moments of the finite numbers.
    pub(super) moments: Moments,
    /// For Booleans: the number of true values and of false values.
    pub truths: Option<(u64, u64)>,
}

impl ValueStatistics {
    /// Returns the mean of the finite numbers, in the column's unit.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.moments.count() > 0).then(|| self.moments.mean())
    }

    /// Returns the population standard deviation of the finite numbers, in the column's unit.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        (self.moments.count() > 0).then(|| self.moments.deviation())
    }

    pub(super) fn merge(&mut self, other: Self) {
        if let Some(distinct) = other.distinct {
            self.distinct.get_or_insert_default().merge(distinct);
        }
        self.moments.merge(&other.moments);
        if let Some((is, is_not)) = other.truths {
            let truths = self.truths.get_or_insert_default();
            *truths = (truths.0 + is, truths.1 + is_not);
        }
    }

    /// Adds values, which must not be lists.
    pub(super) fn add(&mut self, values: &dyn Array) {
        macro_rules! texts {
            ($texts:expr) => {{
                let distinct = self.distinct.get_or_insert_default();
                $texts.iter().flatten().for_each(|text| distinct.add(hash(text.as_ref())));
            }};
        }
        match values.data_type() {
            DataType::Utf8 => texts!(values.as_string::<i32>()),
            DataType::LargeUtf8 => texts!(values.as_string::<i64>()),
            DataType::Binary => texts!(values.as_binary::<i32>()),
            DataType::LargeBinary => texts!(values.as_binary::<i64>()),
            DataType::FixedSizeBinary(_) => texts!(values.as_fixed_size_binary()),
            DataType::Boolean => {
                let is = values.as_boolean().true_count() as u64;
                let is_not = (values.len() - values.null_count()) as u64 - is;
                let truths = self.truths.get_or_insert_default();
                *truths = (truths.0 + is, truths.1 + is_not);
                let distinct = self.distinct.get_or_insert_default();
                [is, is_not].iter().zip([1, 0]).filter(|(times, _)| **times > 0).for_each(|(_, value)| {
                    distinct.add(mixed(value));
                });
            }
            _ => downcast_primitive_array!(
                values => self.add_numbers(values),
                _ => {}
            ),
        }
    }

    fn add_numbers<T: ArrowPrimitiveType>(&mut self, array: &PrimitiveArray<T>)
    where
        T::Native: MeasuredValue,
    {
        let distinct = self.distinct.get_or_insert_default();
        let (mut count, mut base, mut sum, mut squares) = (0, 0.0, 0.0, 0.0);
        for value in array.iter().flatten() {
            distinct.add(value.hash());
            if let Some(number) = value.number().filter(|number| number.is_finite()) {
                if count == 0 {
                    base = number;
                }
                count += 1;
                let apart: f64 = number - base;
                sum += apart;
                squares += apart * apart;
            }
        }
        self.moments.merge(&Moments::of_differences(count, base, sum, squares));
    }
}

fn hash(bytes: &[u8]) -> u64 {
    // This hasher's keys are fixed, so that the estimate for the same input is always the same.
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// A value for which moments and distinct values are computed.
trait MeasuredValue: Copy {
    fn hash(self) -> u64;

    /// Returns the value as a float, if the value is a number.
    fn number(self) -> Option<f64>;
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl MeasuredValue for $type {
            #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "its bits are hashed")]
            fn hash(self) -> u64 {
                mixed(self as u64)
            }

            fn number(self) -> Option<f64> {
                Some(self as f64)
            }
        }
    )* };
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl MeasuredValue for i128 {
    fn hash(self) -> u64 {
        hash(&self.to_le_bytes())
    }

    fn number(self) -> Option<f64> {
        Some(self as f64)
    }
}

macro_rules! floats {
    ($($type:ty),*) => { $(
        impl MeasuredValue for $type {
            fn hash(self) -> u64 {
                let number = f64::from(self);
                mixed(if number.is_nan() { f64::NAN } else { number + 0.0 }.to_bits())
            }

            fn number(self) -> Option<f64> {
                Some(f64::from(self))
            }
        }
    )* };
}

floats!(f32, f64, half::f16);

macro_rules! others {
    ($($type:ty, |$value:ident| $bytes:expr;)*) => { $(
        impl MeasuredValue for $type {
            fn hash(self) -> u64 {
                let $value = self;
                hash(&$bytes)
            }

            fn number(self) -> Option<f64> {
                None
            }
        }
    )* };
}

others! {
    arrow_buffer::i256, |value| value.to_le_bytes();
    arrow_buffer::IntervalDayTime, |value| [value.days.to_le_bytes(), value.milliseconds.to_le_bytes()].concat();
    arrow_buffer::IntervalMonthDayNano, |value|
        [&value.months.to_le_bytes()[..], &value.days.to_le_bytes(), &value.nanoseconds.to_le_bytes()].concat();
}
