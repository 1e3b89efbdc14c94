//! A cell is one value of a column. A cell's type does not depend on the type that a format uses
//! when it reads the value back. A format may read back wider numbers, bytes for strings, a single
//! value for a list of one, and flat lists for nested lists.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};

const DAY: i128 = 86_400_000_000_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum CellValue {
    /// A null, or a missing column.
    Null,
    Whole(i128),
    Real(f64),
    /// A 32-bit floating-point number. A format that stores it as text may read it back as the
    /// nearest 64-bit number.
    Single(f32),
    Bytes(Vec<u8>),
    /// A time, in nanoseconds since midnight or since 1970.
    Time(i128),
    Many(Vec<CellValue>),
    Fields(Vec<(String, CellValue)>),
    /// A value of a type that only the format itself can interpret.
    Other,
}

impl CellValue {
    /// Returns whether `other` is the same value, possibly with a different type.
    #[expect(clippy::cast_possible_truncation, reason = "compares numbers of different widths")]
    pub(super) fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Other, _) | (_, Self::Other) => false,
            (Self::Real(a), Self::Real(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::Single(a), Self::Single(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::Single(a), Self::Real(b)) | (Self::Real(b), Self::Single(a)) => {
                *a == *b as f32 || (a.is_nan() && b.is_nan())
            }
            (Self::Whole(a), Self::Single(b)) | (Self::Single(b), Self::Whole(a)) => *a as f32 == *b,
            (Self::Whole(a), Self::Real(b)) | (Self::Real(b), Self::Whole(a)) => *a as f64 == *b,
            (Self::Many(_), _) | (_, Self::Many(_)) => match (self, other) {
                (Self::Null, _) | (_, Self::Null) => false,
                _ => {
                    let (a, b) = (self.flat(), other.flat());
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_as(b))
                }
            },
            (Self::Fields(a), Self::Fields(b)) => {
                let there = |fields: &[(String, Self)], name: &str| {
                    fields
                        .iter()
                        .find(|(other, _)| other == name)
                        .map_or(Self::Null, |(_, cell)| cell.clone())
                };
                a.iter().chain(b).all(|(name, _)| there(a, name).is_as(&there(b, name)))
            }
            _ => self == other,
        }
    }

    /// Returns the values inside all lists, without the lists.
    fn flat(&self) -> Vec<&Self> {
        match self {
            Self::Many(cells) => cells.iter().flat_map(Self::flat).collect(),
            one => vec![one],
        }
    }
}

/// Returns the value of a column in a row.
pub(super) fn cell(column: &ArrayRef, row: usize) -> CellValue {
    if column.is_null(row) {
        return CellValue::Null;
    }
    macro_rules! whole {
        ($type:ty) => {
            CellValue::Whole(i128::from(column.as_primitive::<$type>().value(row)))
        };
    }
    macro_rules! time {
        ($type:ty, $unit:expr) => {
            CellValue::Time(i128::from(column.as_primitive::<$type>().value(row)) * $unit)
        };
    }
    match column.data_type() {
        DataType::Null => CellValue::Null,
        DataType::Boolean => CellValue::Whole(i128::from(column.as_boolean().value(row))),
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Float16 => CellValue::Single(column.as_primitive::<Float16Type>().value(row).into()),
        DataType::Float32 => CellValue::Single(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => CellValue::Real(column.as_primitive::<Float64Type>().value(row)),
        DataType::Date32 => time!(Date32Type, DAY),
        DataType::Date64 => time!(Date64Type, 1_000_000),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => time!(TimestampSecondType, 1_000_000_000),
            TimeUnit::Millisecond => time!(TimestampMillisecondType, 1_000_000),
            TimeUnit::Microsecond => time!(TimestampMicrosecondType, 1_000),
            TimeUnit::Nanosecond => time!(TimestampNanosecondType, 1),
        },
        DataType::Time32(TimeUnit::Second) => time!(Time32SecondType, 1_000_000_000),
        DataType::Time32(TimeUnit::Millisecond) => time!(Time32MillisecondType, 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => time!(Time64MicrosecondType, 1_000),
        DataType::Time64(TimeUnit::Nanosecond) => time!(Time64NanosecondType, 1),
        DataType::Decimal128(_, scale) => {
            let text = column.as_primitive::<Decimal128Type>().value(row);
            // Convert the decimal through a string. The value is then rounded only once, as it
            // would be by a reader that parses the string.
            format!("{text}e{}", -i32::from(*scale)).parse().map_or(CellValue::Other, CellValue::Real)
        }
        DataType::Utf8 => CellValue::Bytes(column.as_string::<i32>().value(row).into()),
        DataType::LargeUtf8 => CellValue::Bytes(column.as_string::<i64>().value(row).into()),
        DataType::Utf8View => CellValue::Bytes(column.as_string_view().value(row).into()),
        DataType::Binary => CellValue::Bytes(column.as_binary::<i32>().value(row).into()),
        DataType::LargeBinary => CellValue::Bytes(column.as_binary::<i64>().value(row).into()),
        DataType::BinaryView => CellValue::Bytes(column.as_binary_view().value(row).into()),
        DataType::FixedSizeBinary(_) => CellValue::Bytes(column.as_fixed_size_binary().value(row).into()),
        DataType::List(_) => many(&column.as_list::<i32>().value(row)),
        DataType::LargeList(_) => many(&column.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => many(&column.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = column.as_struct().columns();
            let cells = fields.iter().zip(columns);
            CellValue::Fields(
                cells.map(|(field, column)| (field.name().clone(), cell(column, row))).collect(),
            )
        }
        DataType::Dictionary(..) => {
            let column = column.as_any_dictionary();
            let key = column.normalized_keys()[row];
            cell(column.values(), key)
        }
        _ => CellValue::Other,
    }
}

fn many(values: &ArrayRef) -> CellValue {
    CellValue::Many((0..values.len()).map(|row| cell(values, row)).collect())
}
