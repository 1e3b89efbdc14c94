//! Collects the values of a column. TypedValues in the most common notations are parsed at once. All
//! others are collected as strings, which are cast to the column's type together.

use super::SchemaOrigin;
use super::cast::{cast, is_bytes};
use super::rows::FieldText;
use crate::moment::Moment;
use crate::number;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tensorferry_row_text::ColumnLosses;
use tensorferry_sdk::arrow_array::builder::{ArrayBuilder, Float64Builder, Int64Builder, StringBuilder};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{Float64Type, Int64Type};
use tensorferry_sdk::arrow_array::{Array, ArrayRef};
use tensorferry_sdk::arrow_schema::{DataType, FieldRef, TimeUnit};
use tensorferry_sdk::{Error, Result};

/// The values of a column that have been read for a batch.
pub(super) struct ColumnBuilder {
    field: FieldRef,
    values: TypedValues,
    /// Strings that are not in a common notation, and their rows. `values` contains zeros instead.
    others: StringBuilder,
    other_rows: Vec<usize>,
    /// Number of rows, and of bytes in strings, in the previous batch.
    capacity: (usize, usize),
}

enum TypedValues {
    /// Strings, which may have to be cast to the column's type.
    Texts(StringBuilder),
    /// TypedValues of types that are stored as integers.
    Integers(Int64Builder, Notation),
    Floats(Float64Builder),
}

/// The notation of integers.
enum Notation {
    Decimal(RangeInclusive<i64>),
    Bool,
    /// Days since 1970.
    Date,
    /// Times since 1970 in units of 10^-`digits` seconds.
    Time {
        digits: u8,
        has_zone: bool,
    },
}

impl ColumnBuilder {
    pub(super) fn new(field: &FieldRef) -> Self {
        let (field, others) = (field.clone(), StringBuilder::with_capacity(0, 0));
        let values = TypedValues::new(field.data_type(), (0, 0));
        Self { field, values, others, other_rows: Vec::new(), capacity: (0, 0) }
    }

    pub(super) fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Returns whether the column can have empty values.
    pub(super) fn may_be_empty(&self) -> bool {
        let data_type = self.field.data_type();
        matches!(self.values, TypedValues::Texts(_)) && (*data_type == DataType::Utf8 || is_bytes(data_type))
    }

    /// Allocates memory for as many rows as in the previous batch.
    pub(super) fn reserve(&mut self) {
        self.values = TypedValues::new(self.field.data_type(), self.capacity);
    }

    pub(super) fn push_null(&mut self) {
        match &mut self.values {
            TypedValues::Texts(texts) => texts.append_null(),
            TypedValues::Integers(integers, _) => integers.append_null(),
            TypedValues::Floats(floats) => floats.append_null(),
        }
    }

    /// Appends a value if its text is in a common notation. Returns whether it is.
    pub(super) fn push_common(&mut self, field: &FieldText<'_>) -> bool {
        let (bytes, start) = field.in_context();
        match &mut self.values {
            TypedValues::Texts(_) => false,
            TypedValues::Integers(integers, notation) => {
                let value = notation.parse(bytes, start);
                value.map(|value| integers.append_value(value)).is_some()
            }
            TypedValues::Floats(floats) => {
                number::float(bytes, start).map(|value| floats.append_value(value)).is_some()
            }
        }
    }

    /// Appends the text of a value.
    pub(super) fn push_text(&mut self, text: &str) {
        let row = match &mut self.values {
            TypedValues::Texts(texts) => return texts.append_value(text),
            TypedValues::Integers(integers, _) => {
                integers.append_value(0);
                integers.len()
            }
            TypedValues::Floats(floats) => {
                floats.append_value(0.0);
                floats.len()
            }
        };
        self.others.append_value(text);
        self.other_rows.push(row - 1);
    }

    /// Returns the values as an array of the column's type. If a text cannot be converted, returns
    /// the row of the first such text, and an error.
    pub(super) fn finish(
        &mut self,
        origin: SchemaOrigin,
        losses: &ColumnLosses,
    ) -> Result<ArrayRef, (usize, Error)> {
        let rows = std::mem::take(&mut self.other_rows);
        let others = if rows.is_empty() {
            None
        } else {
            let cast = cast(self.others.finish(), &self.field, origin, losses);
            Some(cast.map_err(|(place, error)| (rows[place], error))?)
        };
        let array: ArrayRef = match &mut self.values {
            TypedValues::Texts(texts) => {
                self.capacity = (texts.len(), texts.values_slice().len());
                return cast(texts.finish(), &self.field, origin, losses);
            }
            TypedValues::Integers(integers, _) => {
                if let Some(others) = others {
                    let others = cast_plain(&others, &DataType::Int64)?;
                    replace(integers.values_slice_mut(), &rows, others.as_primitive::<Int64Type>().values());
                }
                Arc::new(integers.finish())
            }
            TypedValues::Floats(floats) => {
                if let Some(others) = others {
                    replace(floats.values_slice_mut(), &rows, others.as_primitive::<Float64Type>().values());
                }
                Arc::new(floats.finish())
            }
        };
        self.capacity = (array.len(), 0);
        cast_plain(&array, self.field.data_type())
    }
}

fn replace<T: Copy>(values: &mut [T], rows: &[usize], others: &[T]) {
    for (row, value) in rows.iter().zip(others) {
        values[*row] = *value;
    }
}

/// Casts between a type and the type of integers that store its values.
fn cast_plain(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, (usize, Error)> {
    if array.data_type() == data_type {
        return Ok(array.clone());
    }
    arrow_cast::cast(array, data_type).map_err(|error| (0, Error::unsupported(error.to_string())))
}

impl TypedValues {
    fn new(data_type: &DataType, (rows, bytes): (usize, usize)) -> Self {
        let notation = match data_type {
            DataType::Float64 => return Self::Floats(Float64Builder::with_capacity(rows)),
            DataType::Int8 => Notation::Decimal(i8::MIN.into()..=i8::MAX.into()),
            DataType::Int16 => Notation::Decimal(i16::MIN.into()..=i16::MAX.into()),
            DataType::Int32 => Notation::Decimal(i32::MIN.into()..=i32::MAX.into()),
            DataType::Int64 => Notation::Decimal(i64::MIN..=i64::MAX),
            DataType::UInt8 => Notation::Decimal(0..=u8::MAX.into()),
            DataType::UInt16 => Notation::Decimal(0..=u16::MAX.into()),
            DataType::UInt32 => Notation::Decimal(0..=u32::MAX.into()),
            DataType::Boolean => Notation::Bool,
            DataType::Date32 => Notation::Date,
            DataType::Timestamp(unit, zone) => {
                let digits = match unit {
                    TimeUnit::Second => 0,
                    TimeUnit::Millisecond => 3,
                    TimeUnit::Microsecond => 6,
                    TimeUnit::Nanosecond => 9,
                };
                Notation::Time { digits, has_zone: zone.is_some() }
            }
            _ => return Self::Texts(StringBuilder::with_capacity(rows, bytes)),
        };
        Self::Integers(Int64Builder::with_capacity(rows), notation)
    }
}

impl Notation {
    /// Parses a text that is in this notation, and that is inferred to be of this type.
    /// The text is the part of `bytes` from index `start`.
    fn parse(&self, bytes: &[u8], start: usize) -> Option<i64> {
        let text = &bytes[start..];
        match self {
            Self::Decimal(range) => number::integer(bytes, start).filter(|value| range.contains(value)),
            Self::Bool => match text {
                b"true" | b"True" | b"TRUE" => Some(1),
                b"false" | b"False" | b"FALSE" => Some(0),
                _ => None,
            },
            Self::Date => {
                let moment = Moment::parse(text)?;
                moment.clock.is_none().then_some(moment.days.into())
            }
            Self::Time { digits, has_zone } => {
                let moment = Moment::parse(text)?;
                let clock = moment.clock.filter(|clock| {
                    clock.has_zone() == *has_zone
                        && clock.digits <= *digits
                        && (*digits < 9 || !moment.is_far())
                })?;
                moment.timestamp(&clock, *digits)
            }
        }
    }
}
