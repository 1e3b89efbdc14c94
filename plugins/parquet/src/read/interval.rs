//! An INTERVAL consists of three unsigned 4-byte little-endian numbers: months, days and
//! milliseconds. The `parquet` crate reads only some of the three numbers, but ferry reads all of
//! them.

use crate::nested::converted;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    ArrowPrimitiveType, IntervalDayTime, IntervalDayTimeType, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalYearMonthType,
};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, PrimitiveArray};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, IntervalUnit};

/// Converts a column to the type `to`, which has intervals where `column` has 12 raw bytes.
pub(super) fn decode(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    match (column.data_type(), to) {
        (from, to) if from == to => Ok(column.clone()),
        (DataType::FixedSizeBinary(_), DataType::Interval(unit)) => match unit {
            IntervalUnit::YearMonth => each::<IntervalYearMonthType>(column, |months, days, milliseconds| {
                (days == 0 && milliseconds == 0).then_some(months)
            }),
            IntervalUnit::DayTime => each::<IntervalDayTimeType>(column, |months, days, milliseconds| {
                (months == 0).then_some(IntervalDayTime::new(days, milliseconds))
            }),
            IntervalUnit::MonthDayNano => {
                each::<IntervalMonthDayNanoType>(column, |months, days, milliseconds| {
                    // Months and days are read as signed numbers, as in DuckDB.
                    let nanoseconds = i64::from(milliseconds.cast_unsigned()) * 1_000_000;
                    Some(IntervalMonthDayNano::new(months, days, nanoseconds))
                })
            }
        },
        // The `parquet` crate's arrays have the same nesting as the schema.
        _ => converted(column, to, &decode),
    }
}

fn each<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    value: impl Fn(i32, i32, i32) -> Option<T::Native>,
) -> Result<ArrayRef, ArrowError> {
    let bytes = column.as_fixed_size_binary();
    let values = (0..bytes.len()).map(|row| {
        if bytes.is_null(row) {
            return Ok(None);
        }
        let part = |at: usize| {
            let part = bytes.value(row).get(at..).and_then(|rest| rest.first_chunk());
            i32::from_le_bytes(part.copied().unwrap_or_default())
        };
        let found = value(part(0), part(4), part(8));
        let wrong =
            || ArrowError::CastError(format!("an INTERVAL has parts that do not fit into {}", T::DATA_TYPE));
        found.map(Some).ok_or_else(wrong)
    });
    Ok(Arc::new(values.collect::<Result<PrimitiveArray<T>, ArrowError>>()?))
}
