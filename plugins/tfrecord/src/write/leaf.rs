//! Converts the values inside all lists of a column to the type of the feature's list. The
//! conversions are implemented here because the arrow-cast crate would add ten megabytes to the
//! plugin.

use super::losses::Losses;
use crate::message::Kind;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray};
use arrow_buffer::{ArrowNativeType, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

pub(super) enum Leaf {
    Ints(ScalarBuffer<i64>),
    Floats(ScalarBuffer<f32>),
    Bytes(BinaryArray),
}

/// Converts values to the type of their list in the message.
pub(super) fn leaf(
    array: &ArrayRef,
    kind: Kind,
    feature: usize,
    losses: &mut Losses,
) -> Result<Leaf, ArrowError> {
    Ok(match (kind, array.data_type()) {
        (Kind::Int64, _) => Leaf::Ints(ints(array)?),
        (Kind::Float, DataType::Float32) => {
            Leaf::Floats(array.as_primitive::<Float32Type>().values().clone())
        }
        (Kind::Float, DataType::Float16) => Leaf::Floats(each::<Float16Type, _>(array, f32::from)),
        (Kind::Float, _) => {
            let wide = floats(array)?;
            #[expect(clippy::cast_possible_truncation, reason = "lost precision is counted below")]
            let narrow: ScalarBuffer<f32> = wide.iter().map(|&value| value as f32).collect();
            let nulls = array.logical_nulls();
            let lost = wide.iter().zip(&*narrow).enumerate().filter(|&(index, (&wide, &narrow))| {
                let is_same = f64::from(narrow).to_bits() == wide.to_bits();
                let both_are_nan = wide.is_nan() && narrow.is_nan();
                !is_same && !both_are_nan && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index))
            });
            let (mut imprecise, mut infinite) = (0, 0);
            for (_, (wide, narrow)) in lost {
                let count =
                    if wide.is_finite() && narrow.is_infinite() { &mut infinite } else { &mut imprecise };
                *count += 1;
            }
            losses.narrowed(feature, imprecise, infinite, wide.len() as u64);
            Leaf::Floats(narrow)
        }
        (Kind::Bytes, _) => Leaf::Bytes(bytes(array)?),
    })
}

fn ints(array: &dyn Array) -> Result<ScalarBuffer<i64>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(i64::from).collect(),
        DataType::Int8 => each::<Int8Type, _>(array, i64::from),
        DataType::Int16 => each::<Int16Type, _>(array, i64::from),
        DataType::UInt8 => each::<UInt8Type, _>(array, i64::from),
        DataType::UInt16 => each::<UInt16Type, _>(array, i64::from),
        DataType::UInt32 => each::<UInt32Type, _>(array, i64::from),
        DataType::UInt64 => {
            let fits = |(index, &value): (usize, &u64)| match i64::try_from(value) {
                Ok(value) => Ok(value),
                Err(_) if array.is_null(index) => Ok(0),
                Err(_) => Err(ArrowError::CastError(format!("the value {value} does not fit int64"))),
            };
            let values = array.as_primitive::<UInt64Type>().values();
            values.iter().enumerate().map(fits).collect::<Result<Vec<_>, _>>()?.into()
        }
        DataType::Dictionary(..) => looked_up(array, &ints(array.as_any_dictionary().values())?),
        // Dates and times are written as the numbers that represent them.
        other if other.primitive_width() == Some(4) => {
            stored::<i32>(array).iter().copied().map(i64::from).collect()
        }
        _ => stored(array),
    })
}

fn floats(array: &dyn Array) -> Result<ScalarBuffer<f64>, ArrowError> {
    match array.data_type() {
        DataType::Decimal32(..) => decimals::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::Float16 => Ok(each::<Float16Type, _>(array, f64::from)),
        DataType::Float32 => Ok(each::<Float32Type, _>(array, f64::from)),
        DataType::Dictionary(..) => Ok(looked_up(array, &floats(array.as_any_dictionary().values())?)),
        _ => Ok(array.as_primitive::<Float64Type>().values().clone()),
    }
}

/// Converts decimals to the nearest floats by parsing their decimal text.
fn decimals<T: DecimalType>(array: &dyn Array) -> Result<ScalarBuffer<f64>, ArrowError> {
    let array = array.as_primitive::<T>();
    let float = |row| {
        let text = array.value_as_string(row);
        text.parse().map_err(|_| ArrowError::CastError(format!("the value {text} is not a float64")))
    };
    Ok((0..array.len()).map(float).collect::<Result<Vec<f64>, _>>()?.into())
}

fn bytes(array: &dyn Array) -> Result<BinaryArray, ArrowError> {
    let len = array.len();
    match array.data_type() {
        DataType::Utf8 => Ok(array.as_string::<i32>().clone().into()),
        DataType::LargeUtf8 => joined(len, |row| array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => joined(len, |row| array.as_string_view().value(row).as_bytes()),
        DataType::LargeBinary => joined(len, |row| array.as_binary::<i64>().value(row)),
        DataType::BinaryView => joined(len, |row| array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => joined(len, |row| array.as_fixed_size_binary().value(row)),
        DataType::Dictionary(..) => {
            let values = bytes(array.as_any_dictionary().values())?;
            let keys = keys(array);
            joined(len, |row| if values.is_empty() { &[][..] } else { values.value(keys[row]) })
        }
        _ => Ok(array.as_binary::<i32>().clone()),
    }
}

fn joined<'a>(len: usize, value: impl Fn(usize) -> &'a [u8]) -> Result<BinaryArray, ArrowError> {
    let (mut offsets, mut data) = (vec![0_i32], Vec::new());
    for row in 0..len {
        data.extend_from_slice(value(row));
        let end = i32::try_from(data.len());
        offsets.push(end.map_err(|_| ArrowError::CastError("more than 2 GiB of data".to_owned()))?);
    }
    BinaryArray::try_new(OffsetBuffer::new(offsets.into()), data.into(), None)
}

fn each<T: ArrowPrimitiveType, V: ArrowNativeType>(
    array: &dyn Array,
    to: impl Fn(T::Native) -> V,
) -> ScalarBuffer<V> {
    array.as_primitive::<T>().values().iter().map(|&value| to(value)).collect()
}

/// Returns the stored numbers of a fixed-width array. The logical type of the array is ignored.
fn stored<V: ArrowNativeType>(array: &dyn Array) -> ScalarBuffer<V> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Returns the dictionary index of each row.
fn keys(array: &dyn Array) -> Vec<usize> {
    let dictionary = array.as_any_dictionary();
    if dictionary.values().is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() }
}

fn looked_up<V: ArrowNativeType>(array: &dyn Array, values: &[V]) -> ScalarBuffer<V> {
    keys(array).into_iter().map(|key| values.get(key).copied().unwrap_or_default()).collect()
}
