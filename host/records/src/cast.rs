//! Casts columns to other types. This module casts text and numbers, including numbers in lists.
//! All other casts use the crate arrow-cast. This crate is large because it supports every pair of
//! types, and is therefore compiled without optimization.

use crate::lists::lists;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, LargeBinaryArray, LargeStringArray, PrimitiveArray,
    make_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_cast::display::array_value_to_string;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;
use tensorferry_sdk::records::value_text::ValueTexts;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// 2^63.
const BEYOND_I64: f64 = 9_223_372_036_854_775_808.0;

/// Casts the values of `array` to a different type. If a value does not fit, returns an error if
/// `strict` is set; otherwise, the value becomes null.
pub fn cast(array: &ArrayRef, to: &DataType, strict: bool) -> Result<ArrayRef, ArrowError> {
    if let Some(texts) = time_texts(array, to, strict) {
        return cast(&texts?, to, strict);
    }
    match large_bytes(array, to).or_else(|| numbers(array, to)) {
        Some(cast) => Ok(cast),
        None => cast_with_options(array, to, &CastOptions { safe: !strict, ..CastOptions::default() }),
    }
}

/// Returns the first value whose fraction a cast to `to` would drop. Values in lists are included.
pub fn fraction(array: &ArrayRef, to: &DataType) -> Option<String> {
    if let (Some((begins, items)), Some(to)) = (lists(array), item_type(to)) {
        let within = |from: usize, until: usize| fraction(&items.slice(from, until - from), to);
        return match begins.as_slice() {
            // Values inside null lists are ignored.
            rows if array.null_count() > 0 => rows
                .windows(2)
                .enumerate()
                .filter(|(row, _)| array.is_valid(*row))
                .find_map(|(_, row)| within(row[0], row[1])),
            [first, .., last] => within(*first, *last),
            _ => None,
        };
    }
    if !to.is_integer() {
        return None;
    }
    let found = match array.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => match Wide::of(array)? {
            Wide::Floats(values) => {
                let has_one = |&row: &usize| array.is_valid(row) && values[row].fract() != 0.0;
                (0..array.len()).find(has_one)
            }
            Wide::Integers(_) => None,
        },
        from if from.is_decimal() => {
            let back = cast(array, to, false).and_then(|whole| cast(&whole, from, false)).ok()?;
            let has_one = |&row: &usize| {
                array.is_valid(row) && back.is_valid(row) && array.slice(row, 1) != back.slice(row, 1)
            };
            if array.as_ref() == back.as_ref() { None } else { (0..array.len()).find(has_one) }
        }
        _ => None,
    };
    let text = |row| array_value_to_string(array, row).unwrap_or_default();
    found.map(text)
}

/// Returns dates, times of day and durations as text, in the form that writers use.
fn time_texts(array: &ArrayRef, to: &DataType, strict: bool) -> Option<Result<ArrayRef, ArrowError>> {
    use DataType::{Date32, Date64, Duration, LargeUtf8, Time32, Time64, Utf8, Utf8View};
    if !matches!(array.data_type(), Date32 | Date64 | Time32(_) | Time64(_) | Duration(_))
        || !matches!(to, Utf8 | LargeUtf8 | Utf8View)
    {
        return None;
    }
    let texts = ValueTexts::new(array).and_then(|texts| {
        let text = |row: usize| {
            let mut text = String::new();
            match texts.write(row, &mut text) {
                _ if array.is_null(row) => Ok(None),
                Err(error) if strict => Err(error),
                written => Ok(written.ok().map(|()| text)),
            }
        };
        let texts: LargeStringArray = (0..array.len()).map(text).collect::<Result<_, _>>()?;
        Ok(Arc::new(texts) as ArrayRef)
    });
    Some(texts)
}

pub(super) fn item_type(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// Converts text and bytes to bytes with wider offsets, without copying the values.
fn large_bytes(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    let bytes = match array.data_type() {
        _ if *to != DataType::LargeBinary => return None,
        DataType::Utf8 => &BinaryArray::from(array.as_string::<i32>().clone()),
        DataType::Binary => array.as_binary(),
        _ => return None,
    };
    let offsets: ScalarBuffer<i64> = bytes.offsets().iter().copied().map(i64::from).collect();
    let nulls = bytes.nulls().cloned();
    Some(Arc::new(LargeBinaryArray::new(OffsetBuffer::new(offsets), bytes.values().clone(), nulls)))
}

/// Casts numbers to a different numeric type. Returns `None` if a type is not numeric or if a
/// number does not fit.
fn numbers(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    match (array.data_type(), to) {
        (from, to) if from == to => return Some(array.clone()),
        (DataType::List(_), DataType::List(item)) | (DataType::LargeList(_), DataType::LargeList(item)) => {
            return lists_of_numbers(array, to, item.data_type());
        }
        (DataType::FixedSizeList(_, from), DataType::FixedSizeList(item, len)) if from == len => {
            return lists_of_numbers(array, to, item.data_type());
        }
        _ => {}
    }
    let wide = Wide::of(array)?;
    match to {
        DataType::Int8 => wide.integers::<Int8Type>(array),
        DataType::Int16 => wide.integers::<Int16Type>(array),
        DataType::Int32 => wide.integers::<Int32Type>(array),
        DataType::Int64 => wide.integers::<Int64Type>(array),
        DataType::UInt8 => wide.integers::<UInt8Type>(array),
        DataType::UInt16 => wide.integers::<UInt16Type>(array),
        DataType::UInt32 => wide.integers::<UInt32Type>(array),
        DataType::UInt64 => wide.integers::<UInt64Type>(array),
        #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, as arrow-cast does")]
        DataType::Float32 => Some(wide.floats::<Float32Type>(array, |i| i as f32, |f| f as f32)),
        DataType::Float64 => Some(wide.floats::<Float64Type>(array, |i| i as f64, |f| f)),
        _ => None,
    }
}

fn lists_of_numbers(array: &ArrayRef, to: &DataType, item: &DataType) -> Option<ArrayRef> {
    let data = array.to_data();
    let items = numbers(&make_array(data.child_data().first()?.clone()), item)?;
    data.into_builder().data_type(to.clone()).child_data(vec![items.to_data()]).build().ok().map(make_array)
}

/// Numbers that were widened to a type that represents all of them exactly.
enum Wide {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

impl Wide {
    fn of(array: &ArrayRef) -> Option<Self> {
        fn integers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Wide {
            Wide::Integers(array.as_primitive::<T>().values().iter().map(|&value| value.into()).collect())
        }
        fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &ArrayRef) -> Wide {
            Wide::Floats(array.as_primitive::<T>().values().iter().map(|&value| value.into()).collect())
        }
        Some(match array.data_type() {
            DataType::Int8 => integers::<Int8Type>(array),
            DataType::Int16 => integers::<Int16Type>(array),
            DataType::Int32 => integers::<Int32Type>(array),
            DataType::Int64 => integers::<Int64Type>(array),
            DataType::UInt8 => integers::<UInt8Type>(array),
            DataType::UInt16 => integers::<UInt16Type>(array),
            DataType::UInt32 => integers::<UInt32Type>(array),
            DataType::Float16 => floats::<Float16Type>(array),
            DataType::Float32 => floats::<Float32Type>(array),
            DataType::Float64 => floats::<Float64Type>(array),
            _ => return None,
        })
    }

    /// Truncates floats toward zero. Values that are null do not have to fit.
    fn integers<T: ArrowPrimitiveType<Native: TryFrom<i64>>>(&self, array: &ArrayRef) -> Option<ArrayRef> {
        let value = |(row, value): (usize, Option<i64>)| {
            let value = value.and_then(|value| T::Native::try_from(value).ok());
            value.or_else(|| array.is_null(row).then(T::Native::default))
        };
        let values: Option<Vec<T::Native>> = match self {
            Self::Integers(values) => {
                values.iter().map(|&value| Some(value)).enumerate().map(value).collect()
            }
            Self::Floats(values) => values.iter().map(|&value| whole(value)).enumerate().map(value).collect(),
        };
        Some(Arc::new(PrimitiveArray::<T>::new(values?.into(), array.nulls().cloned())))
    }

    fn floats<T: ArrowPrimitiveType>(
        &self,
        array: &ArrayRef,
        of_integer: impl Fn(i64) -> T::Native,
        of_float: impl Fn(f64) -> T::Native,
    ) -> ArrayRef {
        let values: Vec<T::Native> = match self {
            Self::Integers(values) => values.iter().map(|&value| of_integer(value)).collect(),
            Self::Floats(values) => values.iter().map(|&value| of_float(value)).collect(),
        };
        Arc::new(PrimitiveArray::<T>::new(values.into(), array.nulls().cloned()))
    }
}

fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the fraction is dropped, and the rest fits")]
    (-BEYOND_I64..BEYOND_I64).contains(&value).then_some(value as i64)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use arrow_array::{
        Date32Array, Decimal128Array, Float64Array, Int64Array, ListArray, StringArray, Time32SecondArray,
        UInt64Array,
    };

    const NUMBERS: [DataType; 11] = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
    ];

    fn agrees(array: &ArrayRef, to: &DataType) {
        for strict in [false, true] {
            let options = CastOptions { safe: !strict, ..CastOptions::default() };
            let expected = cast_with_options(array, to, &options);
            match (cast(array, to, strict), expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found.to_data(), expected.to_data(), "{} {to}", array.data_type());
                }
                (found, expected) => {
                    assert_eq!(found.unwrap_err().to_string(), expected.unwrap_err().to_string());
                }
            }
        }
    }

    #[test]
    fn times_become_the_texts_that_writers_give_them() {
        let of = |array: ArrayRef, strict| cast(&array, &DataType::Utf8, strict);
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), None, Some(i32::MAX)]));
        let expected = StringArray::from(vec![Some("1970-01-01"), None, Some("+5881580-07-11")]);
        assert_eq!(of(dates, true).unwrap().as_string::<i32>(), &expected);
        let times: ArrayRef = Arc::new(Time32SecondArray::from(vec![0, 86_400]));
        let expected = StringArray::from(vec![Some("00:00:00"), None]);
        assert_eq!(of(times.clone(), false).unwrap().as_string::<i32>(), &expected);
        assert!(of(times, true).is_err());
    }

    #[test]
    fn numbers_become_what_arrow_makes_of_them() {
        let small: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), None, Some(127)]));
        let large: ArrayRef =
            Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, -1, (1 << 53) + 1, 16_777_217, 128, 65_536]));
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]));
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![0.5, -0.0, -1.5, 127.9, 1e-300, 16_777_217.0]));
        let odd: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(f64::NAN),
            Some(f64::INFINITY),
            Some(-BEYOND_I64),
            Some(BEYOND_I64),
            Some(1e300),
            None,
        ]));
        for first in [small, large, unsigned, floats, odd] {
            for from in &NUMBERS {
                // The values of `first` that this type can represent; other values become null.
                let array = cast(&first, from, false).unwrap();
                NUMBERS.iter().for_each(|to| agrees(&array, to));
            }
        }
    }

    #[test]
    fn fractions_are_found_where_they_count() {
        let whole = DataType::Int32;
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(-0.0), Some(2.5)]));
        assert_eq!(fraction(&floats, &whole).as_deref(), Some("2.5"));
        assert_eq!(fraction(&floats.slice(0, 3), &whole), None);
        assert_eq!(fraction(&floats, &DataType::Float32), None);

        let decimals = Decimal128Array::from(vec![Some(100), None, Some(150)]).with_precision_and_scale(9, 2);
        let decimals: ArrayRef = Arc::new(decimals.unwrap());
        assert_eq!(fraction(&decimals, &whole).as_deref(), Some("1.50"));
        assert_eq!(fraction(&decimals.slice(0, 2), &whole), None);

        let lists = [Some(vec![Some(1.0)]), None, Some(vec![None, Some(0.25)])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
        let to = DataType::new_list(whole.clone(), true);
        assert_eq!(fraction(&lists, &to).as_deref(), Some("0.25"));
        assert_eq!(fraction(&lists.slice(0, 2), &to), None);
        let hidden = lists.to_data().into_builder().null_bit_buffer(Some([0b001_u8].into()));
        assert_eq!(fraction(&make_array(hidden.build().unwrap()), &to), None);
    }

    #[test]
    fn text_as_large_bytes_too() {
        let text: ArrayRef =
            Arc::new(arrow_array::StringArray::from(vec![Some("a"), None, Some("bc"), Some("")]));
        agrees(&text, &DataType::LargeBinary);
        agrees(&text.slice(1, 2), &DataType::LargeBinary);
    }

    #[test]
    fn numbers_in_lists_too() {
        let lists = [Some(vec![Some(1), None, Some(300)]), None, Some(vec![])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        for item in [DataType::Int16, DataType::Int8, DataType::Float32, DataType::Utf8] {
            let to = DataType::new_list(item, true);
            agrees(&lists, &to);
            agrees(&lists.slice(1, 2), &to);
        }
    }
}
