//! The canonical encoding of a column's rows. The encoding depends only on the values, not on the
//! batches or the Arrow types that contain them. Digests are computed from the encoding, and
//! comparisons of rows use it.
//!
//! ```text
//! row    = u64 LE: number of values; 2^64-1 if the row is missing, and nothing follows
//!          u8: 0, or 1 if a value is null; then one byte per value, 0 if it is null
//!          each value that is not null
//! value  = number, Boolean (one byte) or time, little-endian; every NaN is encoded the same
//!        | text or bytes, after their length as u64
//!        | of a list: the row of its values
//!        | of a struct: for each field, the row of that one value
//!        | of a union: the number of its type, and the row of that one value
//! ```
//!
//! A format may read a column back as a different type. For example, TFRecord returns 64-bit
//! integers instead of 32-bit integers, and a single value instead of a list of one value. Rows can
//! therefore also be encoded in flat form: for each row, the values inside all nested lists are
//! cast to one type and joined. A cast may change a value. An exact encoding marks a changed value,
//! so that it differs from every other value.

use super::cast::{cast, item_type};
use super::lists::{lists, lists_or_maps};
use super::plain::compared_column;
use super::zones::in_known_zones;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, LargeBinaryArray, ListArray, StructArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use half::f16;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// Marks a missing row. This constant replaces the number of values, so that a missing row differs
/// from an empty list.
pub(super) const MISSING: u64 = u64::MAX;

/// An encoder for single rows of a column.
pub(super) struct RowEncoder {
    values: Encoded,
    /// The index of each row's first value, and the end of the last row.
    begins: Vec<usize>,
    missing: Option<NullBuffer>,
}

impl RowEncoder {
    /// Encodes a column in flat form, with its values cast to `leaf`. If a value does not fit,
    /// returns an error if `strict` is set; otherwise, the value becomes null.
    pub(super) fn flat(column: &ArrayRef, leaf: &DataType, strict: bool) -> Result<Self, ArrowError> {
        let column = &compared_column(column)?;
        let (values, begins) = flat(column);
        let values = Encoded::of(&cast_nested(&values, leaf, strict)?)?;
        Ok(Self { values, begins, missing: column.logical_nulls() })
    }

    /// Encodes a column with its values cast to `leaf`, and marks each value that the cast changes.
    /// If `nested` is set, lists are not flattened.
    pub(super) fn exact(column: &ArrayRef, leaf: &DataType, nested: bool) -> Result<Self, ArrowError> {
        let column = &compared_column(column)?;
        let (values, begins) = if nested { (column.clone(), rows(column)) } else { flat(column) };
        Ok(Self { values: Encoded::exact(&values, leaf)?, begins, missing: column.logical_nulls() })
    }

    /// Encodes a column and keeps its nested lists.
    pub(super) fn nested(column: &ArrayRef) -> Result<Self, ArrowError> {
        let column = &compared_column(column)?;
        Ok(Self { values: Encoded::of(column)?, begins: rows(column), missing: column.logical_nulls() })
    }

    /// Returns whether a row is null.
    pub(super) fn is_missing(&self, row: usize) -> bool {
        self.missing.as_ref().is_some_and(|missing| missing.is_null(row))
    }

    /// Appends the encoding of a row.
    pub(super) fn append(&self, row: usize, to: &mut Vec<u8>) {
        if self.is_missing(row) {
            to.extend(MISSING.to_le_bytes());
        } else {
            self.values.append(self.begins[row]..self.begins[row + 1], to);
        }
    }
}

/// Returns whether a type is a byte-string type of variable length, whose values may not be text.
pub(crate) fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Returns whether a type is a string type or a byte-string type of variable length.
pub fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Binary | LargeBinary | BinaryView | Utf8 | LargeUtf8 | Utf8View)
}

/// Encoded values, and a mask of those that are null.
struct Encoded {
    bytes: ValueBytes,
    nulls: Option<NullBuffer>,
    /// A mask of the values that a cast has changed.
    changed: Option<BooleanBuffer>,
}

enum ValueBytes {
    /// Values that have the same length in bytes.
    Fixed(usize, Buffer),
    /// Values of varying length.
    Variable(LargeBinaryArray),
    /// Lists: the start of each list, and the values of all lists.
    Lists(Vec<usize>, Box<Encoded>),
    Structs(Vec<Encoded>),
    /// Values of a union: each value's type ID and its index among the values of that type, and the
    /// values of each type.
    Unions(Vec<(i8, usize)>, BTreeMap<i8, Encoded>),
    /// Values of the null type, which are all null.
    Nothing,
}

impl Encoded {
    fn of(values: &ArrayRef) -> Result<Self, ArrowError> {
        let bytes = match values.data_type() {
            DataType::Null => ValueBytes::Nothing,
            DataType::Boolean => fixed(&cast(values, &DataType::UInt8, false)?),
            float if float.is_floating() => fixed(&with_one_nan(values)),
            DataType::FixedSizeBinary(_) => variable(values)?,
            text if is_text(text) => variable(values)?,
            DataType::Struct(_) => {
                let fields = values.as_struct().columns().iter().map(Self::of);
                ValueBytes::Structs(fields.collect::<Result<_, _>>()?)
            }
            DataType::Union(types, _) => {
                let union = values.as_union();
                let of_type = |(id, _): (i8, _)| Ok((id, Self::of(&compared_column(union.child(id))?)?));
                let of_types = types.iter().map(of_type).collect::<Result<_, ArrowError>>()?;
                let place = |row| (union.type_id(row), union.value_offset(row));
                ValueBytes::Unions((0..values.len()).map(place).collect(), of_types)
            }
            other => match (lists_or_maps(values), other.primitive_width()) {
                (Some((begins, items)), _) => ValueBytes::Lists(begins, Box::new(Self::of(&items)?)),
                (None, Some(_)) => fixed(values),
                (None, None) => return Err(ArrowError::NotYetImplemented(format!("values of {other}"))),
            },
        };
        Ok(Self { bytes, nulls: present_nulls(values), changed: None })
    }

    /// Casts the values inside all lists to `leaf`, encodes them, and marks the values that the
    /// cast changes.
    fn exact(values: &ArrayRef, leaf: &DataType) -> Result<Self, ArrowError> {
        if let Some((begins, items)) = lists(values) {
            let bytes = ValueBytes::Lists(begins, Box::new(Self::exact(&items, leaf)?));
            return Ok(Self { bytes, nulls: present_nulls(values), changed: None });
        }
        let cast = cast_leaf(values, leaf, false)?;
        Ok(Self { changed: changed_by_cast(values, &cast)?, ..Self::of(&cast)? })
    }

    /// Appends the encoding of a range of values as one row.
    fn append(&self, range: Range<usize>, to: &mut Vec<u8>) {
        to.extend((range.len() as u64).to_le_bytes());
        let is_null = |place: usize| self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(place));
        let has_nulls = self.nulls.is_some() && range.clone().any(is_null);
        to.push(u8::from(has_nulls));
        if has_nulls {
            to.extend(range.clone().map(|place| u8::from(!is_null(place))));
        }
        let present = range.clone().filter(|&place| !is_null(place));
        match &self.bytes {
            ValueBytes::Fixed(width, bytes) if !has_nulls => {
                to.extend_from_slice(&bytes[range.start * width..range.end * width]);
            }
            ValueBytes::Fixed(width, bytes) => {
                present.for_each(|place| to.extend_from_slice(&bytes[place * width..(place + 1) * width]));
            }
            ValueBytes::Variable(values) => present.for_each(|place| {
                let value = values.value(place);
                to.extend((value.len() as u64).to_le_bytes());
                to.extend_from_slice(value);
            }),
            ValueBytes::Lists(begins, items) => {
                present.for_each(|place| items.append(begins[place]..begins[place + 1], to));
            }
            ValueBytes::Structs(fields) => {
                present.for_each(|place| fields.iter().for_each(|field| field.append(place..place + 1, to)));
            }
            ValueBytes::Unions(places, of_types) => {
                for (id, place) in present.map(|row| places[row]) {
                    to.push(id.cast_unsigned());
                    if let Some(values) = of_types.get(&id) {
                        values.append(place..place + 1, to);
                    }
                }
            }
            ValueBytes::Nothing => {}
        }
        if let Some(changed) = &self.changed {
            to.extend(range.filter(|&place| changed.value(place)).map(|_| 1));
        }
    }

    /// Compares the first `len` values with those of `other`, and returns a mask of the values that
    /// differ.
    fn differing(&self, other: &Self, len: usize) -> BooleanBuffer {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        BooleanBuffer::collect_bool(len, |place| {
            for (bytes, values) in [(&mut one, self), (&mut two, other)] {
                bytes.clear();
                values.append(place..place + 1, bytes);
            }
            one != two
        })
    }
}

fn present_nulls(values: &ArrayRef) -> Option<NullBuffer> {
    values.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

/// Casts values, including values in structs, to the type in which they are compared.
fn cast_nested(values: &ArrayRef, to: &DataType, strict: bool) -> Result<ArrayRef, ArrowError> {
    match (values.data_type(), to) {
        (DataType::Struct(from), DataType::Struct(fields)) if from.len() == fields.len() => {
            let values = values.as_struct();
            let cast = |(column, field): (&ArrayRef, &FieldRef)| {
                let column = cast_nested(column, field.data_type(), strict)?;
                let field = Field::new(field.name(), column.data_type().clone(), true);
                Ok((Arc::new(field), column))
            };
            let columns = values.columns().iter().zip(fields).map(cast);
            let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) =
                columns.collect::<Result<Vec<_>, ArrowError>>()?.into_iter().unzip();
            let nulls = values.nulls().cloned();
            let cast = StructArray::try_new_with_length(fields.into(), columns, nulls, values.len())?;
            Ok(Arc::new(cast))
        }
        (from, DataType::List(item)) if is_list(from) => {
            let item_type = item_type(from).unwrap_or(from).clone();
            let lists = cast(values, &DataType::new_list(item_type, true), strict)?;
            let lists = lists.as_list::<i32>();
            let items = cast_nested(lists.values(), item.data_type(), strict)?;
            let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            let offsets = lists.offsets().clone();
            Ok(Arc::new(ListArray::try_new(item, offsets, items, lists.nulls().cloned())?))
        }
        _ => cast_leaf(values, to, strict),
    }
}

fn is_list(data_type: &DataType) -> bool {
    item_type(data_type).is_some()
}

/// Casts values to the type in which they are compared. Text is parsed as numbers even if it is
/// stored as bytes.
fn cast_leaf(values: &ArrayRef, leaf: &DataType, strict: bool) -> Result<ArrayRef, ArrowError> {
    let leaf = match leaf {
        // UTC can represent the times of every zone. Text contains its own UTC offset, and
        // arrow-cast does not support zone names.
        DataType::Timestamp(unit, Some(_)) => &DataType::Timestamp(*unit, Some("+00:00".into())),
        leaf => leaf,
    };
    let from = match in_known_zones(values.data_type()) {
        // Text formats write the times of all zones in UTC.
        DataType::Timestamp(unit, Some(_)) if is_text(leaf) => {
            DataType::Timestamp(unit, Some("+00:00".into()))
        }
        from => from,
    };
    let values = if from == *values.data_type() { values.clone() } else { cast(values, &from, strict)? };
    match (is_text(&from), is_text(leaf)) {
        (true, true) => Ok(values),
        _ if from == *leaf => Ok(values),
        (true, false) if is_bytes(&from) => cast(&cast(&values, &DataType::LargeUtf8, strict)?, leaf, strict),
        _ => cast(&values, leaf, strict),
    }
}

/// Returns a mask of the values that a cast changes. A value counts as changed if casting it back
/// does not restore the original value. Text never counts as changed, because a value can be
/// written as text in several ways.
fn changed_by_cast(values: &ArrayRef, cast_values: &ArrayRef) -> Result<Option<BooleanBuffer>, ArrowError> {
    let from = &in_known_zones(values.data_type());
    if is_text(from) || from.is_nested() || from.is_null() || from == cast_values.data_type() {
        return Ok(None);
    }
    let values = Encoded::of(values)?;
    let changed = values.differing(&Encoded::of(&cast(cast_values, from, false)?)?, cast_values.len());
    if !(from.is_floating() && cast_values.data_type().is_floating()) {
        return Ok(Some(changed));
    }
    // In a text file, the number 0.1 has the same digits for a 64-bit float and for a 32-bit float.
    let digits = cast(&cast(cast_values, &DataType::Utf8, false)?, from, false)?;
    Ok(Some(&changed & &values.differing(&Encoded::of(&digits)?, cast_values.len())))
}

/// Returns the bytes of fixed-width values as they are in memory. They are little-endian on every
/// machine that ferry supports.
fn fixed(array: &ArrayRef) -> ValueBytes {
    let width = array.data_type().primitive_width().unwrap_or(0);
    let data = array.to_data();
    let bytes = data.buffers().first().cloned().unwrap_or_default();
    ValueBytes::Fixed(width, bytes.slice_with_length(data.offset() * width, data.len() * width))
}

fn variable(array: &ArrayRef) -> Result<ValueBytes, ArrowError> {
    Ok(ValueBytes::Variable(cast(array, &DataType::LargeBinary, false)?.as_binary().clone()))
}

fn with_one_nan(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float16 => one_nan::<Float16Type>(values, f16::NAN, |v| v.is_nan()),
        DataType::Float32 => one_nan::<Float32Type>(values, f32::NAN, f32::is_nan),
        DataType::Float64 => one_nan::<Float64Type>(values, f64::NAN, f64::is_nan),
        _ => values.clone(),
    }
}

/// Replaces every NaN with the same NaN, because some formats do not distinguish NaN values.
fn one_nan<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    nan: T::Native,
    is_nan: impl Fn(T::Native) -> bool,
) -> ArrayRef {
    let floats = array.as_primitive::<T>();
    if !floats.values().iter().any(|&value| is_nan(value)) {
        return array.clone();
    }
    Arc::new(floats.unary::<_, T>(|value| if is_nan(value) { nan } else { value }))
}

/// Returns the start of each row if every row contains one value.
fn rows(column: &ArrayRef) -> Vec<usize> {
    (0..=column.len()).collect()
}

/// Returns the values inside all lists of a column, and the index of each row's first value.
fn flat(column: &ArrayRef) -> (ArrayRef, Vec<usize>) {
    let mut values = column.clone();
    let mut begins = rows(column);
    while let Some((offsets, items)) = lists(&values) {
        begins = begins.into_iter().map(|begin| offsets[begin]).collect();
        values = items;
    }
    (values, begins)
}
