//! Tensor dtypes for the Arrow types of columns, and Arrow types for dtypes.

use crate::encoding::is_text;
use arrow_schema::{DataType, IntervalUnit};
use tensorferry_sdk::{Dtype, arrow_schema};

/// Returns the dtype for a column's values, or `None` if no tensor can store the values unchanged.
#[must_use]
pub(super) fn dtype(leaf: &DataType) -> Option<Dtype> {
    Some(match leaf {
        // For a column of nulls, the tensor contains false values that are all marked as missing.
        DataType::Boolean | DataType::Null => Dtype::BOOL,
        DataType::Int8 => Dtype::I8,
        DataType::Int16 => Dtype::I16,
        DataType::Int32
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Interval(IntervalUnit::YearMonth) => Dtype::I32,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => Dtype::I64,
        DataType::UInt8 => Dtype::U8,
        DataType::UInt16 => Dtype::U16,
        DataType::UInt32 => Dtype::U32,
        DataType::UInt64 => Dtype::U64,
        DataType::Float16 => Dtype::F16,
        DataType::Float32 => Dtype::F32,
        DataType::Float64 => Dtype::F64,
        _ if is_text(leaf) => Dtype::STR,
        _ => return None,
    })
}

/// Returns whether values of an Arrow type have a meaning that their dtype does not express.
#[must_use]
pub(super) fn is_more_than_its_dtype(leaf: &DataType) -> bool {
    let dtype = dtype(leaf);
    dtype != Some(Dtype::STR) && dtype.and_then(data_type).as_ref() != Some(leaf)
}

/// Returns the column type for values of a dtype. Strings become bytes. Returns `None` if Arrow has
/// no such type.
#[must_use]
pub(super) fn data_type(dtype: Dtype) -> Option<DataType> {
    Some(match dtype {
        Dtype::BOOL => DataType::Boolean,
        Dtype::I8 => DataType::Int8,
        Dtype::I16 => DataType::Int16,
        Dtype::I32 => DataType::Int32,
        Dtype::I64 => DataType::Int64,
        Dtype::U8 => DataType::UInt8,
        Dtype::U16 => DataType::UInt16,
        Dtype::U32 => DataType::UInt32,
        Dtype::U64 => DataType::UInt64,
        Dtype::F16 => DataType::Float16,
        Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
        Dtype::STR => DataType::Binary,
        _ => return None,
    })
}
