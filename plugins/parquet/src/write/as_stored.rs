//! Converts a column to its stored type. For example, times in seconds are converted to a unit that
//! Parquet supports, list views become lists, and run-end encoded arrays become plain values. The
//! arrow-cast crate could do this, but would make the plugin nine megabytes larger.

use crate::logical::INTERVAL_LEN;
use crate::nested::converted;
use arrow_buffer::OffsetBuffer;
use arrow_data::transform::MutableArrayData;
use arrow_select::take::take;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    Date32Type, Date64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    RunEndIndexType, Time32MillisecondType, Time32SecondType, TimestampMillisecondType, TimestampSecondType,
};
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, BinaryArray, FixedSizeBinaryArray, GenericListArray, OffsetSizeTrait,
    PrimitiveArray, make_array,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};

const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// Converts `array` to the type `to`, which [`stored`](super::stored) returns for the type of the
/// array.
pub(super) fn as_stored(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let from = array.data_type();
    Ok(match from {
        _ if from == to => array.clone(),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            let array = array.as_primitive::<TimestampSecondType>();
            let finer: PrimitiveArray<TimestampMillisecondType> = array.try_unary(|s| s.mul_checked(1000))?;
            Arc::new(finer.with_timezone_opt(zone.clone()))
        }
        DataType::Time32(TimeUnit::Second) => {
            let array = array.as_primitive::<Time32SecondType>();
            let finer: PrimitiveArray<Time32MillisecondType> = array.try_unary(|s| s.mul_checked(1000))?;
            Arc::new(finer)
        }
        DataType::Date64 => {
            let days: PrimitiveArray<Date32Type> =
                array.as_primitive::<Date64Type>().try_unary(|milliseconds| {
                    // Arrow allows only whole days in `Date64`, so the conversion would lose a time
                    // of day.
                    let days = (milliseconds % MILLISECONDS_PER_DAY == 0)
                        .then_some(milliseconds / MILLISECONDS_PER_DAY);
                    days.and_then(|days| i32::try_from(days).ok()).ok_or_else(|| {
                        ArrowError::CastError(format!("{milliseconds} ms is not a whole number of days"))
                    })
                })?;
            Arc::new(days)
        }
        DataType::FixedSizeBinary(0) => {
            let values = array.as_fixed_size_binary();
            Arc::new(values.iter().collect::<BinaryArray>())
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>();
            let parts = values.iter().map(|value| value.map(interval_bytes).transpose());
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(parts.into_iter(), INTERVAL_LEN)?)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            as_stored(&take(dictionary.values(), dictionary.keys(), None)?, to)?
        }
        DataType::ListView(_) => views::<i32>(array, to)?,
        DataType::LargeListView(_) => views::<i64>(array, to)?,
        DataType::RunEndEncoded(ends, _) => {
            let values = match ends.data_type() {
                DataType::Int16 => runs::<Int16Type>(array),
                DataType::Int32 => runs::<Int32Type>(array),
                _ => runs::<Int64Type>(array),
            };
            as_stored(&values?, to)?
        }
        _ => converted(array, to, &as_stored)?,
    })
}

/// Encodes an interval for Parquet as three unsigned numbers.
fn interval_bytes(value: IntervalMonthDayNano) -> Result<[u8; 12], ArrowError> {
    let IntervalMonthDayNano { months, days, nanoseconds } = value;
    let milliseconds = (nanoseconds % 1_000_000 == 0).then_some(nanoseconds / 1_000_000);
    let milliseconds = milliseconds.and_then(|count| u32::try_from(count).ok());
    match (u32::try_from(months), u32::try_from(days), milliseconds) {
        (Ok(months), Ok(days), Some(milliseconds)) => {
            let mut bytes = [0; 12];
            bytes[..4].copy_from_slice(&months.to_le_bytes());
            bytes[4..8].copy_from_slice(&days.to_le_bytes());
            bytes[8..].copy_from_slice(&milliseconds.to_le_bytes());
            Ok(bytes)
        }
        _ => Err(ArrowError::CastError(format!(
            "Parquet has no negative intervals and no fractions of a millisecond, so {value:?} does not fit; drop the \
             column with --step 'map:drop,columns=NAME'"
        ))),
    }
}

fn views<O: OffsetSizeTrait>(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let (DataType::List(item) | DataType::LargeList(item)) = to else {
        return converted(array, to, &as_stored);
    };
    let views = array.as_list_view::<O>();
    let values = views.values().to_data();
    let mut joined = MutableArrayData::new(vec![&values], false, values.len());
    let mut ends = vec![O::zero()];
    for row in 0..views.len() {
        if views.is_valid(row) {
            let start = views.value_offset(row).as_usize();
            joined.try_extend(0, start, start + views.value_size(row).as_usize())?;
        }
        let too_long = || ArrowError::CastError("the lists of the batch have too many values".to_owned());
        ends.push(O::from_usize(joined.len()).ok_or_else(too_long)?);
    }
    let values = as_stored(&make_array(joined.freeze()), item.data_type())?;
    let lists = GenericListArray::try_new(
        item.clone(),
        OffsetBuffer::new(ends.into()),
        values,
        views.nulls().cloned(),
    );
    Ok(Arc::new(lists?))
}

/// Decodes a run-end encoded array by repeating each run's value.
fn runs<R: RunEndIndexType>(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let runs = array.as_run::<R>();
    let values = runs.values().to_data();
    let mut joined = MutableArrayData::new(vec![&values], true, runs.len());
    for row in 0..runs.len() {
        let place = runs.get_physical_index(row);
        joined.try_extend(0, place, place + 1)?;
    }
    Ok(make_array(joined.freeze()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::arrow_array::types::{Int32Type, Int64Type};
    use tensorferry_sdk::arrow_array::{
        Date32Array, Date64Array, Int32Array, Int64Array, ListArray, ListViewArray, RunArray, StructArray,
        Time32MillisecondArray, Time32SecondArray,
    };
    use tensorferry_sdk::arrow_schema::Field;

    #[test]
    fn layouts_that_parquet_lacks_become_lists_and_values() {
        let item = Arc::new(Field::new("item", DataType::Date64, true));
        let dates: ArrayRef = Arc::new(Date64Array::from(vec![86_400_000, 0, -86_400_000]));
        let views = ListViewArray::try_new(
            item,
            vec![1, 0, 0].into(),
            vec![2, 3, 0].into(),
            dates,
            Some(vec![true, true, false].into()),
        );
        let stored_item = Arc::new(Field::new("item", DataType::Date32, true));
        let days: ArrayRef = Arc::new(Date32Array::from(vec![0, -1, 1, 0, -1]));
        let expected = ListArray::try_new(
            stored_item.clone(),
            OffsetBuffer::from_lengths([2, 3, 0]),
            days,
            Some(vec![true, true, false].into()),
        );
        let found = as_stored(&(Arc::new(views.unwrap()) as ArrayRef), &DataType::List(stored_item)).unwrap();
        assert_eq!(found.to_data(), expected.unwrap().to_data());

        let values = Int64Array::from(vec![Some(7), None]);
        let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &values).unwrap();
        let runs: ArrayRef = Arc::new(runs.slice(1, 2));
        let expected = Int64Array::from(vec![Some(7), None]);
        assert_eq!(as_stored(&runs, &DataType::Int64).unwrap().as_primitive::<Int64Type>(), &expected);
    }

    #[test]
    fn times_within_structs_are_finer() {
        let of = |array: ArrayRef| {
            let field = Field::new("t", array.data_type().clone(), true);
            let structs = StructArray::try_new(vec![field].into(), vec![array], None).unwrap();
            Arc::new(structs) as ArrayRef
        };
        let seconds = of(Arc::new(Time32SecondArray::from(vec![Some(1), None, Some(3)]))).slice(1, 2);
        let expected = of(Arc::new(Time32MillisecondArray::from(vec![None, Some(3000)])));
        assert_eq!(&as_stored(&seconds, expected.data_type()).unwrap(), &expected);
        let too_many = of(Arc::new(Time32SecondArray::from(vec![i32::MAX])));
        assert!(as_stored(&too_many, expected.data_type()).is_err());
    }
}
