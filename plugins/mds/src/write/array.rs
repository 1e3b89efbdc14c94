//! Encodes lists of numbers as MDS arrays.

use crate::encoding::{DTYPE, SHAPE, VALUES, put_shape};
use crate::numbers::Number;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::UInt64Type;
use tensorferry_sdk::arrow_array::{Array, ArrayRef};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::{Error, Result};

/// The encoding of an array column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArrayEncoding {
    pub(super) number: Number,
    /// Whether every value contains its number type. If set, the encoding is `ndarray`.
    pub(super) says_number: bool,
    /// The shape of all arrays, if the shape is fixed.
    pub(super) shape: Option<Vec<u64>>,
}

impl ArrayEncoding {
    /// Returns the name of the encoding.
    pub(super) fn word(&self) -> String {
        let number = self.number.word();
        match &self.shape {
            _ if self.says_number => "ndarray".to_owned(),
            None => format!("ndarray:{number}"),
            Some(shape) => {
                let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
                format!("ndarray:{number}:{}", shape.join(","))
            }
        }
    }

    /// Returns the length of each array in bytes, if the shape is fixed.
    pub(super) fn size(&self) -> Option<u64> {
        let width = self.number.width() as u64;
        self.shape.as_ref().map(|shape| shape.iter().fold(width, |size, len| size.saturating_mul(*len)))
    }
}

/// Returns the number type inside nested lists, the depth of the lists, and their shape. The shape
/// is `None` unless all lists have fixed lengths.
pub(super) fn numbers_of(data_type: &DataType) -> Option<(Number, usize, Option<Vec<u64>>)> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => {
            let (number, depth, _) = numbers_of(item.data_type())?;
            Some((number, depth + 1, None))
        }
        DataType::FixedSizeList(item, len) => {
            let (number, depth, shape) = numbers_of(item.data_type())?;
            let len = u64::try_from(*len).ok().filter(|len| *len > 0)?;
            let shape = if depth == 0 { Some(Vec::new()) } else { shape };
            let shape = shape.map(|mut shape| {
                shape.insert(0, len);
                shape
            });
            Some((number, depth + 1, shape))
        }
        plain => Number::of(plain).map(|number| (number, 0, None)),
    }
}

/// Encodes a column of lists. Also returns the number of nulls that were replaced by zero or NaN.
pub(super) fn values(array: &ArrayRef, of: &ArrayEncoding) -> Result<(Vec<Vec<u8>>, u64)> {
    let width = of.number.width();
    let (mut values, mut nulls) = (Vec::with_capacity(array.len()), 0);
    for row in 0..array.len() {
        if let (true, Some(size)) = (array.is_null(row), of.size()) {
            values.push(vec![0; usize::try_from(size).unwrap_or_default()]);
            nulls += 1;
            continue;
        }
        let mut shape = Vec::new();
        let (leaf, from, to) = range(array, row, row + 1, &mut shape)?;
        let (numbers, missing) = of.number.bytes_of(leaf.slice(from, to - from).as_ref());
        nulls += missing;
        let mut value = Vec::with_capacity((to - from) * width + 16);
        if of.says_number {
            value.push(of.number.code());
        }
        if of.shape.is_none() {
            put_shape(&shape, &mut value)?;
        }
        value.extend_from_slice(&numbers);
        values.push(value);
    }
    Ok((values, nulls))
}

/// Encodes a column of structs that contain the shape and the numbers of an array. The reader
/// returns such structs if the depth or the type of arrays varies.
pub(super) fn parts(array: &ArrayRef, of: &ArrayEncoding) -> Result<(Vec<Vec<u8>>, u64)> {
    let other =
        || Error::unsupported("a struct is not an array: its shape does not match the number of its values");
    let columns = array.as_struct();
    let (shapes, numbers) =
        columns.column_by_name(SHAPE).zip(columns.column_by_name(VALUES)).ok_or_else(other)?;
    let mut values = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        if array.is_null(row) || shapes.is_null(row) || numbers.is_null(row) {
            return Err(other());
        }
        let shape = shapes.as_list::<i32>().value(row);
        let shape: &[u64] = shape.as_primitive::<UInt64Type>().values();
        let count = shape.iter().try_fold(1, |count: u64, len| count.checked_mul(*len));
        let mut value = Vec::new();
        let (bytes, len) = match numbers.data_type() {
            DataType::Binary => {
                let dtypes = columns.column_by_name(DTYPE).ok_or_else(other)?;
                let number = Number::named(dtypes.as_string::<i32>().value(row)).ok_or_else(other)?;
                value.push(number.code());
                let bytes = numbers.as_binary::<i32>().value(row);
                (bytes.to_vec(), bytes.len() / number.width())
            }
            _ => {
                let list = numbers.as_list::<i32>().value(row);
                if of.says_number {
                    value.push(of.number.code());
                }
                if list.null_count() > 0 {
                    return Err(other());
                }
                (of.number.bytes_of(list.as_ref()).0, list.len())
            }
        };
        if count != Some(len as u64) {
            return Err(other());
        }
        put_shape(shape, &mut value)?;
        value.extend(bytes);
        values.push(value);
    }
    Ok((values, 0))
}

/// Returns the encoding of a struct that [`parts`] can encode, or `None` for other types.
pub(super) fn parts_of(data_type: &DataType, word: &str) -> Option<ArrayEncoding> {
    let DataType::Struct(fields) = data_type else { return None };
    let of = |name: &str| fields.iter().find(|field| field.name() == name).map(|field| field.data_type());
    let list_of = |data_type: &DataType| match data_type {
        DataType::List(item) => Some(item.data_type().clone()),
        _ => None,
    };
    if !word.starts_with("ndarray") || list_of(of(SHAPE)?) != Some(DataType::UInt64) {
        return None;
    }
    let (number, says_number) = match of(VALUES)? {
        DataType::Binary if of(DTYPE) == Some(&DataType::Utf8) => (Number::UInt8, true),
        values => (Number::of(&list_of(values)?)?, word == "ndarray"),
    };
    Some(ArrayEncoding { number, says_number, shape: None })
}

/// Returns the numbers in a range of rows. All lists of a level must have the same length, which is
/// appended to `shape`.
fn range(array: &ArrayRef, from: usize, to: usize, shape: &mut Vec<u64>) -> Result<(ArrayRef, usize, usize)> {
    let is_list =
        matches!(array.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
    if !is_list {
        return Ok((array.clone(), from, to));
    }
    if (from..to).any(|row| array.is_null(row)) {
        return Err(Error::unsupported("MDS arrays cannot contain null lists")
            .hint("pass -o lists=json to write such lists as JSON"));
    }
    let ends = |row: usize| match array.data_type() {
        DataType::List(_) => {
            let offsets = array.as_list::<i32>().value_offsets();
            usize::try_from(offsets[row]).unwrap_or_default()
        }
        DataType::LargeList(_) => {
            let offsets = array.as_list::<i64>().value_offsets();
            usize::try_from(offsets[row]).unwrap_or_default()
        }
        _ => {
            let list = array.as_fixed_size_list();
            row * usize::try_from(list.value_length()).unwrap_or_default()
        }
    };
    let items = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().values(),
        DataType::LargeList(_) => array.as_list::<i64>().values(),
        _ => array.as_fixed_size_list().values(),
    };
    let first = ends(from + 1) - ends(from);
    if (from..to).any(|row| ends(row + 1) - ends(row) != first) {
        let error = Error::unsupported("lists of different lengths cannot form an array")
            .hint("pass -o lists=json to write such lists as JSON");
        return Err(error);
    }
    shape.push(first as u64);
    if first == 0 {
        return Err(Error::unsupported("MDS has no empty arrays")
            .hint("pass -o lists=json to write such lists as JSON"));
    }
    range(items, ends(from), ends(to), shape)
}
