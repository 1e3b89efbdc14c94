//! Builds the innermost array of a column. The array contains the values in the type that the
//! schema requires.

use super::values::Values;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;

/// A value that does not fit the type of the column.
#[derive(Debug)]
pub(super) struct BadValue {
    /// The index of the value among all values.
    pub(super) index: usize,
    pub(super) expected: String,
    pub(super) found: String,
}

/// Converts values to an array of the type `leaf`.
pub(super) fn array(
    values: Values,
    leaf: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, BadValue> {
    match values {
        Values::Ints(values) => ints(values, leaf, nulls),
        Values::Floats(values) => Ok(match leaf {
            DataType::Float64 => {
                let wide: ScalarBuffer<f64> = values.into_iter().map(f64::from).collect();
                Arc::new(PrimitiveArray::<Float64Type>::new(wide, nulls))
            }
            _ => Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls)),
        }),
        Values::Bytes { data, ends } => bytes(data, &ends, leaf, nulls),
    }
}

fn ints(values: Vec<i64>, leaf: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef, BadValue> {
    match leaf {
        DataType::Int8 => narrow::<Int8Type>(&values, leaf, nulls),
        DataType::Int16 => narrow::<Int16Type>(&values, leaf, nulls),
        DataType::Int32 => narrow::<Int32Type>(&values, leaf, nulls),
        DataType::UInt8 => narrow::<UInt8Type>(&values, leaf, nulls),
        DataType::UInt16 => narrow::<UInt16Type>(&values, leaf, nulls),
        DataType::UInt32 => narrow::<UInt32Type>(&values, leaf, nulls),
        DataType::UInt64 => narrow::<UInt64Type>(&values, leaf, nulls),
        DataType::Date32 => narrow::<Date32Type>(&values, leaf, nulls),
        DataType::Date64 => Ok(same::<Date64Type>(values, nulls)),
        DataType::Timestamp(TimeUnit::Second, None) => Ok(same::<TimestampSecondType>(values, nulls)),
        DataType::Timestamp(TimeUnit::Millisecond, None) => {
            Ok(same::<TimestampMillisecondType>(values, nulls))
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Ok(same::<TimestampMicrosecondType>(values, nulls))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, None) => Ok(same::<TimestampNanosecondType>(values, nulls)),
        DataType::Boolean => {
            if let Some(index) = values.iter().position(|&value| !matches!(value, 0 | 1)) {
                return Err(BadValue {
                    index,
                    expected: "0 or 1".to_owned(),
                    found: values[index].to_string(),
                });
            }
            let bits = BooleanBuffer::collect_bool(values.len(), |index| values[index] == 1);
            Ok(Arc::new(BooleanArray::new(bits, nulls)))
        }
        _ => Ok(same::<Int64Type>(values, nulls)),
    }
}

fn same<T: ArrowPrimitiveType<Native = i64>>(values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

fn narrow<T: ArrowPrimitiveType>(
    values: &[i64],
    leaf: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, BadValue>
where
    T::Native: TryFrom<i64>,
{
    let mut narrowed = Vec::with_capacity(values.len());
    for (index, &value) in values.iter().enumerate() {
        narrowed.push(T::Native::try_from(value).map_err(|_| BadValue {
            index,
            expected: format!("a value of {leaf}"),
            found: value.to_string(),
        })?);
    }
    Ok(Arc::new(PrimitiveArray::<T>::new(narrowed.into(), nulls)))
}

fn bytes(
    data: Vec<u8>,
    ends: &[i32],
    leaf: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, BadValue> {
    let offsets: Vec<i32> = std::iter::once(0).chain(ends.iter().copied()).collect();
    if *leaf == DataType::Utf8 {
        let is_text = |range: &[i32]| {
            // The ends are in ascending order and do not exceed the length of the data.
            let place = |end: i32| usize::try_from(end).unwrap_or(0);
            std::str::from_utf8(&data[place(range[0])..place(range[1])]).is_ok()
        };
        if let Some(index) = offsets.windows(2).position(|range| !is_text(range)) {
            let found = "other bytes".to_owned();
            return Err(BadValue { index, expected: "UTF-8".to_owned(), found });
        }
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let data = Buffer::from_vec(data);
    Ok(match leaf {
        DataType::Utf8 => Arc::new(StringArray::new(offsets, data, nulls)),
        _ => Arc::new(BinaryArray::new(offsets, data, nulls)),
    })
}
