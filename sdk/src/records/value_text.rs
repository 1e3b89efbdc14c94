//! Formats single values of a column as strings, for text formats and for tables.
//!
//! `arrow-cast` has several limits. It prints dates only up to the year 262142, wraps times beyond
//! 2^32 seconds, and prints `<invalid>` for durations beyond its own range. This module prints all
//! dates and durations. A time of day that is not within one day cannot be printed.
//!
//! Numbers, booleans, dates and times are printed here, because `arrow-cast` allocates a string for
//! each value.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, BooleanArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::fmt::{self, Write};
use std::ops::RangeInclusive;

const SECONDS_PER_DAY: i64 = 86_400;
const MILLISECONDS_PER_DAY: i64 = 1000 * SECONDS_PER_DAY;

/// The days on which a timestamp can be printed, from the year -262143 to the year 262142. Arrow's
/// own library does not convert other timestamps to dates.
const TIMESTAMP_DAYS: RangeInclusive<i64> = -96_465_292..=95_026_236;

/// A column whose values can be printed as strings.
pub struct ValueTexts<'a>(Texts<'a>);

enum Texts<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Temporal(TemporalTexts<'a>),
    Library(ArrayFormatter<'a>),
}

impl<'a> ValueTexts<'a> {
    /// Prepares a column for printing its values.
    ///
    /// # Errors
    /// Returns an error for a type that cannot be printed.
    pub fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let is_own_zone = match array.data_type() {
            DataType::Timestamp(_, Some(zone)) => &**zone == "+00:00",
            _ => true,
        };
        Ok(Self(match array.data_type() {
            DataType::Boolean => Texts::Boolean(array.as_boolean()),
            DataType::Int8 => Texts::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Texts::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Texts::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Texts::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Texts::UInt8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Texts::UInt16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Texts::UInt32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Texts::UInt64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float32 => Texts::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Texts::Float64(array.as_primitive::<Float64Type>().values()),
            _ => match TemporalTexts::new(array).filter(|_| is_own_zone) {
                Some(temporal) => Texts::Temporal(temporal),
                None => Texts::Library(ArrayFormatter::try_new(array, &FormatOptions::default())?),
            },
        }))
    }

    /// Appends a value to `text`. The value must not be null.
    ///
    /// # Errors
    /// Returns an error for a value that cannot be printed.
    pub fn write(&self, row: usize, text: &mut impl Write) -> Result<(), ArrowError> {
        let written = match &self.0 {
            Texts::Boolean(values) => text.write_str(if values.value(row) { "true" } else { "false" }),
            Texts::Int8(values) => integer(values[row], text),
            Texts::Int16(values) => integer(values[row], text),
            Texts::Int32(values) => integer(values[row], text),
            Texts::Int64(values) => integer(values[row], text),
            Texts::UInt8(values) => integer(values[row], text),
            Texts::UInt16(values) => integer(values[row], text),
            Texts::UInt32(values) => integer(values[row], text),
            Texts::UInt64(values) => integer(values[row], text),
            Texts::Float32(values) => float(values[row], text),
            Texts::Float64(values) => float(values[row], text),
            Texts::Temporal(temporal) => return temporal.write(row, text),
            Texts::Library(library) => text.write_str(&library.value(row).try_to_string()?),
        };
        written.map_err(|error| refused(&error))
    }
}

/// Returns whether any byte of a text is such a byte. Texts are checked in chunks: the compiler
/// checks all bytes of a chunk at once, because no check depends on the result of another.
pub fn any_byte(text: &[u8], is_such: impl Fn(u8) -> bool) -> bool {
    let any = |chunk: &[u8; 16]| chunk.iter().fold(false, |found, byte| found | is_such(*byte));
    match text.last_chunk() {
        Some(last) => text.as_chunks().0.iter().any(any) || any(last),
        None => text.iter().any(|byte| is_such(*byte)),
    }
}

fn refused(error: &fmt::Error) -> ArrowError {
    ArrowError::CastError(error.to_string())
}

fn integer(value: impl itoa::Integer, text: &mut impl Write) -> fmt::Result {
    text.write_str(itoa::Buffer::new().format(value))
}

/// Prints the shortest text that is read as the same number. The exponent has no plus sign.
fn float<T: zmij::Float + Into<f64>>(value: T, text: &mut impl Write) -> fmt::Result {
    /// Numbers below this number have no positive exponent.
    const MAX_PLAIN: f64 = 1e12;
    let mut buffer = zmij::Buffer::new();
    let printed = buffer.format(value);
    if value.into().abs() < MAX_PLAIN {
        return text.write_str(printed);
    }
    printed.split('+').try_for_each(|part| text.write_str(part))
}

/// Prints dates, times of day, timestamps and durations of a column.
pub(super) struct TemporalTexts<'a> {
    data_type: &'a DataType,
    values: TemporalValues<'a>,
    kind: TextKind,
}

enum TemporalValues<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

#[derive(Debug, Clone, Copy)]
enum TextKind {
    /// Days since 1970-01-01.
    Days,
    /// Milliseconds since 1970-01-01.
    Milliseconds,
    /// A point in time, and whether it is in UTC.
    Timestamp(TimeUnit, bool),
    Time(TimeUnit),
    Duration(TimeUnit),
}

impl<'a> TemporalTexts<'a> {
    /// Returns `None` for columns of any other type. A timestamp with any time zone is printed in UTC.
    pub(super) fn new(array: &'a dyn Array) -> Option<Self> {
        use TemporalValues::{Narrow, Wide};
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let data_type = array.data_type();
        let (values, kind) = match data_type {
            DataType::Date32 => (Narrow(array.as_primitive::<Date32Type>().values()), TextKind::Days),
            DataType::Date64 => (Wide(array.as_primitive::<Date64Type>().values()), TextKind::Milliseconds),
            DataType::Timestamp(unit, zone) => {
                let values = match unit {
                    Second => array.as_primitive::<TimestampSecondType>().values(),
                    Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                    Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                    Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
                };
                (Wide(values), TextKind::Timestamp(*unit, zone.is_some()))
            }
            DataType::Time32(unit) => {
                let values = match unit {
                    Second => array.as_primitive::<Time32SecondType>().values(),
                    _ => array.as_primitive::<Time32MillisecondType>().values(),
                };
                (Narrow(values), TextKind::Time(*unit))
            }
            DataType::Time64(unit) => {
                let values = match unit {
                    Microsecond => array.as_primitive::<Time64MicrosecondType>().values(),
                    _ => array.as_primitive::<Time64NanosecondType>().values(),
                };
                (Wide(values), TextKind::Time(*unit))
            }
            DataType::Duration(unit) => {
                let values = match unit {
                    Second => array.as_primitive::<DurationSecondType>().values(),
                    Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
                    Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
                    Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
                };
                (Wide(values), TextKind::Duration(*unit))
            }
            _ => return None,
        };
        Some(Self { data_type, values, kind })
    }

    pub(super) fn write(&self, row: usize, text: &mut impl Write) -> Result<(), ArrowError> {
        let value = match self.values {
            TemporalValues::Narrow(values) => values[row].into(),
            TemporalValues::Wide(values) => values[row],
        };
        let written = match self.kind {
            TextKind::Days => date(value, text),
            TextKind::Milliseconds => moment(
                value.div_euclid(MILLISECONDS_PER_DAY),
                value.rem_euclid(MILLISECONDS_PER_DAY),
                1000,
                text,
            ),
            TextKind::Timestamp(unit, is_utc) => {
                let per_second = per_second(unit);
                let per_day = SECONDS_PER_DAY * per_second;
                let days = value.div_euclid(per_day);
                if !TIMESTAMP_DAYS.contains(&days) {
                    return Err(ArrowError::CastError(format!(
                        "Failed to convert {value} to datetime for {}",
                        self.data_type
                    )));
                }
                moment(days, value.rem_euclid(per_day), per_second, text)
                    .and_then(|()| if is_utc { text.write_char('Z') } else { Ok(()) })
            }
            TextKind::Time(unit) => {
                let per_second = per_second(unit);
                if !(0..SECONDS_PER_DAY * per_second).contains(&value) {
                    return Err(ArrowError::CastError(format!(
                        "{value} is not within a day, so it cannot be written as text"
                    )));
                }
                time(value, per_second, text)
            }
            TextKind::Duration(unit) => duration(value, per_second(unit), text),
        };
        written.map_err(|error| refused(&error))
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Prints a date in ISO 8601. `days` is the number of days since 1970-01-01.
fn date(days: i64, text: &mut impl Write) -> fmt::Result {
    let [year, month, day] = year_month_day(days);
    if !(0..=9999).contains(&year) {
        return write!(text, "{year:+05}-{month:02}-{day:02}");
    }
    let mut bytes = *b"0000-00-00";
    put_digits(&mut bytes[..4], year);
    put_digits(&mut bytes[5..7], month);
    put_digits(&mut bytes[8..], day);
    put_ascii(&bytes, text)
}

/// Returns the date in the Gregorian calendar. `days` is the number of days since 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn year_month_day(days: i64) -> [i64; 3] {
    const DAYS_PER_400_YEARS: i64 = 146_097;
    // Counts days from March 1 of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_400_YEARS), days.rem_euclid(DAYS_PER_400_YEARS));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    [400 * era + year_of_era + i64::from(month <= 2), month, day]
}

/// Prints a time of day, with 0, 3, 6 or 9 digits for the fraction of a second.
fn time(value: i64, per_second: i64, text: &mut impl Write) -> fmt::Result {
    let (seconds, part) = (value / per_second, value % per_second);
    let nanoseconds = part * (1_000_000_000 / per_second);
    let mut bytes = *b"00:00:00.000000000";
    put_digits(&mut bytes[..2], seconds / 3600);
    put_digits(&mut bytes[3..5], seconds / 60 % 60);
    put_digits(&mut bytes[6..8], seconds % 60);
    put_digits(&mut bytes[9..], nanoseconds);
    let len = match nanoseconds {
        0 => 8,
        _ if nanoseconds % 1_000_000 == 0 => 12,
        _ if nanoseconds % 1000 == 0 => 15,
        _ => 18,
    };
    put_ascii(&bytes[..len], text)
}

/// Prints a date and a time of day.
fn moment(days: i64, of_day: i64, per_second: i64, text: &mut impl Write) -> fmt::Result {
    date(days, text)?;
    text.write_char('T')?;
    time(of_day, per_second, text)
}

/// Fills `bytes` with the last digits of a number that is not negative.
fn put_digits(bytes: &mut [u8], value: i64) {
    let mut value = value.unsigned_abs();
    for byte in bytes.iter_mut().rev() {
        *byte = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn put_ascii(bytes: &[u8], text: &mut impl Write) -> fmt::Result {
    text.write_str(std::str::from_utf8(bytes).map_err(|_| fmt::Error)?)
}

/// Prints a duration in ISO 8601. The only unit is seconds.
fn duration(value: i64, per_second: i64, text: &mut impl Write) -> fmt::Result {
    if value == 0 {
        return text.write_str("P0D");
    }
    let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    let per_second = per_second.unsigned_abs();
    write!(text, "{sign}PT{}", size / per_second)?;
    let nanoseconds = size % per_second * (1_000_000_000 / per_second);
    if nanoseconds > 0 {
        text.write_char('.')?;
        text.write_str(format!("{nanoseconds:09}").trim_end_matches('0'))?;
    }
    text.write_char('S')
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use arrow_array::{
        ArrayRef, BooleanArray, Date32Array, Date64Array, DurationMillisecondArray, DurationNanosecondArray,
        DurationSecondArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
        Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray,
        TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
        UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    };
    use std::sync::Arc;

    fn texts(array: &ArrayRef) -> Vec<String> {
        let texts = ValueTexts::new(array).unwrap();
        let text = |row| {
            let mut text = String::new();
            texts.write(row, &mut text).map_or_else(|_| "none".to_owned(), |()| text)
        };
        (0..array.len()).map(text).collect()
    }

    #[test]
    fn values_out_of_the_library_s_range_have_texts_or_none() {
        for (array, expected) in [
            (
                Arc::new(Date32Array::from(vec![0, -1, 2_932_896, 2_932_897, -719_529, i32::MAX, i32::MIN]))
                    as ArrayRef,
                vec![
                    "1970-01-01",
                    "1969-12-31",
                    "9999-12-31",
                    "+10000-01-01",
                    "-0001-12-31",
                    "+5881580-07-11",
                    "-5877641-06-23",
                ],
            ),
            (
                Arc::new(Date64Array::from(vec![0, -1, i64::MAX])),
                vec!["1970-01-01T00:00:00", "1969-12-31T23:59:59.999", "+292278994-08-17T07:12:55.807"],
            ),
            (Arc::new(Time32SecondArray::from(vec![86_399, 86_400, -1])), vec!["23:59:59", "none", "none"]),
            (Arc::new(Time32MillisecondArray::from(vec![1, 86_400_000])), vec!["00:00:00.001", "none"]),
            (
                Arc::new(Time64MicrosecondArray::from(vec![1, 86_400_000_000, (1 << 32) * 1_000_000])),
                vec!["00:00:00.000001", "none", "none"],
            ),
            (Arc::new(Time64NanosecondArray::from(vec![1, i64::MAX])), vec!["00:00:00.000000001", "none"]),
            (
                Arc::new(DurationSecondArray::from(vec![0, 90_000, i64::MIN])),
                vec!["P0D", "PT90000S", "-PT9223372036854775808S"],
            ),
            (
                Arc::new(DurationMillisecondArray::from(vec![-1500, i64::MIN])),
                vec!["-PT1.5S", "-PT9223372036854775.808S"],
            ),
            (Arc::new(DurationNanosecondArray::from(vec![1])), vec!["PT0.000000001S"]),
        ] {
            assert_eq!(texts(&array), expected, "{}", array.data_type());
        }
    }

    fn assert_as_library(array: &ArrayRef) {
        let library = ArrayFormatter::try_new(array, &FormatOptions::default()).unwrap();
        let own = ValueTexts::new(array).unwrap();
        for row in 0..array.len() {
            let mut text = String::new();
            let written = own.write(row, &mut text).map(|()| text);
            let (found, expected) = (written, library.value(row).try_to_string());
            let message = |error: ArrowError| error.to_string();
            assert_eq!(found.map_err(message), expected.map_err(message), "{}", array.data_type());
        }
    }

    #[test]
    fn dates_are_those_of_the_library() {
        let days: Vec<i32> = (-800_000..4_000_000).step_by(37).collect();
        assert_as_library(&(Arc::new(Date32Array::from(days)) as ArrayRef));
    }

    #[test]
    fn numbers_are_those_of_the_library() {
        let mut floats = vec![f64::NAN, f64::INFINITY, 0.0, 1.0, 0.3, 5e-324, f64::MIN_POSITIVE, f64::MAX];
        floats.extend((-330..310).flat_map(|exponent| {
            ["1", "1.5", "9.999999999999999"]
                .map(|digits| format!("{digits}e{exponent}").parse::<f64>().unwrap())
        }));
        floats.extend(floats.clone().into_iter().map(|float| -float));
        #[expect(clippy::cast_possible_truncation, reason = "any float is a test")]
        let narrow: Vec<f32> = floats.iter().map(|float| *float as f32).collect();
        let arrays: [ArrayRef; 11] = [
            Arc::new(Float64Array::from(floats)),
            Arc::new(Float32Array::from(narrow)),
            Arc::new(Int8Array::from(vec![0, i8::MIN, i8::MAX])),
            Arc::new(Int16Array::from(vec![0, i16::MIN, i16::MAX])),
            Arc::new(Int32Array::from(vec![0, i32::MIN, i32::MAX])),
            Arc::new(Int64Array::from(vec![0, i64::MIN, i64::MAX])),
            Arc::new(UInt8Array::from(vec![0, u8::MAX])),
            Arc::new(UInt16Array::from(vec![0, u16::MAX])),
            Arc::new(UInt32Array::from(vec![0, u32::MAX])),
            Arc::new(UInt64Array::from(vec![0, u64::MAX])),
            Arc::new(BooleanArray::from(vec![true, false])),
        ];
        arrays.iter().for_each(assert_as_library);
    }

    #[test]
    fn timestamps_are_those_of_the_library() {
        let (first, last) =
            (TIMESTAMP_DAYS.start() * SECONDS_PER_DAY, (TIMESTAMP_DAYS.end() + 1) * SECONDS_PER_DAY);
        let mut seconds = vec![0, -1, first, first - 1, last - 1, last, i64::MIN, i64::MAX];
        seconds.extend((-70_000_000_000..260_000_000_000).step_by(123_456_789));
        let finer = |per_second: i64| -> Vec<i64> {
            let parts = [0, 1, per_second / 1000, per_second - 1];
            let of = |second: &i64| parts.map(|part| second.saturating_mul(per_second).saturating_add(part));
            seconds.iter().flat_map(of).collect()
        };
        for zone in [None, Some("+00:00")] {
            let arrays: [ArrayRef; 4] = [
                Arc::new(TimestampSecondArray::from(seconds.clone()).with_timezone_opt(zone)),
                Arc::new(TimestampMillisecondArray::from(finer(1000)).with_timezone_opt(zone)),
                Arc::new(TimestampMicrosecondArray::from(finer(1_000_000)).with_timezone_opt(zone)),
                Arc::new(TimestampNanosecondArray::from(finer(1_000_000_000)).with_timezone_opt(zone)),
            ];
            arrays.iter().for_each(assert_as_library);
        }
    }

    #[test]
    fn a_byte_is_found_at_each_place() {
        for len in 0..40 {
            let mut text = vec![b'a'; len];
            assert!(!any_byte(&text, |byte| byte == b'b'));
            for place in 0..len {
                text[place] = b'b';
                assert!(any_byte(&text, |byte| byte == b'b'), "{place} of {len}");
                text[place] = b'a';
            }
        }
    }
}
