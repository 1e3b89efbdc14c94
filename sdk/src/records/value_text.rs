//! Formats single values of a column as strings, for text formats and for tables.
//!
//! `arrow-cast` has several limits. It prints dates only up to the year 262142, wraps times beyond
//! 2^32 seconds, and prints `<invalid>` for durations beyond its own range. This module prints all
//! dates and durations. A time of day that is not within one day cannot be printed.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::fmt::{self, Write};

const SECONDS_PER_DAY: i64 = 86_400;
const MILLISECONDS_PER_DAY: i64 = 1000 * SECONDS_PER_DAY;

/// A column whose values can be printed as strings.
pub struct ValueTexts<'a>(Texts<'a>);

enum Texts<'a> {
    Own(TemporalTexts<'a>),
    Library(ArrayFormatter<'a>),
}

impl<'a> ValueTexts<'a> {
    /// Prepares a column for printing its values.
    ///
    /// # Errors
    /// Returns an error for a type that cannot be printed.
    pub fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        Ok(Self(match TemporalTexts::new(array) {
            Some(own) => Texts::Own(own),
            None => Texts::Library(ArrayFormatter::try_new(array, &FormatOptions::default())?),
        }))
    }

    /// Appends a value to `text`. The value must not be null.
    ///
    /// # Errors
    /// Returns an error for a value that cannot be printed.
    pub fn write(&self, row: usize, text: &mut String) -> Result<(), ArrowError> {
        match &self.0 {
            Texts::Own(own) => own.write(row, text),
            Texts::Library(library) => {
                text.push_str(&library.value(row).try_to_string()?);
                Ok(())
            }
        }
    }
}

/// Prints dates, times of day and durations of a column.
pub(super) struct TemporalTexts<'a> {
    value: Box<dyn Fn(usize) -> i64 + 'a>,
    kind: TextKind,
}

#[derive(Debug, Clone, Copy)]
enum TextKind {
    /// Days since 1970-01-01.
    Days,
    /// Milliseconds since 1970-01-01.
    Milliseconds,
    Time(TimeUnit),
    Duration(TimeUnit),
}

impl<'a> TemporalTexts<'a> {
    /// Returns `None` for columns of any other type.
    pub(super) fn new(array: &'a dyn Array) -> Option<Self> {
        fn values<'a, T: ArrowPrimitiveType<Native: Into<i64>>>(
            array: &'a dyn Array,
        ) -> Box<dyn Fn(usize) -> i64 + 'a> {
            let values = array.as_primitive::<T>().values();
            Box::new(|row| values[row].into())
        }
        let (value, kind) = match array.data_type() {
            DataType::Date32 => (values::<Date32Type>(array), TextKind::Days),
            DataType::Date64 => (values::<Date64Type>(array), TextKind::Milliseconds),
            DataType::Time32(unit @ TimeUnit::Second) => {
                (values::<Time32SecondType>(array), TextKind::Time(*unit))
            }
            DataType::Time32(unit) => (values::<Time32MillisecondType>(array), TextKind::Time(*unit)),
            DataType::Time64(unit @ TimeUnit::Microsecond) => {
                (values::<Time64MicrosecondType>(array), TextKind::Time(*unit))
            }
            DataType::Time64(unit) => (values::<Time64NanosecondType>(array), TextKind::Time(*unit)),
            DataType::Duration(unit) => {
                let values = match unit {
                    TimeUnit::Second => values::<DurationSecondType>(array),
                    TimeUnit::Millisecond => values::<DurationMillisecondType>(array),
                    TimeUnit::Microsecond => values::<DurationMicrosecondType>(array),
                    TimeUnit::Nanosecond => values::<DurationNanosecondType>(array),
                };
                (values, TextKind::Duration(*unit))
            }
            _ => return None,
        };
        Some(Self { value, kind })
    }

    pub(super) fn write(&self, row: usize, text: &mut impl Write) -> Result<(), ArrowError> {
        let value = (self.value)(row);
        let written = match self.kind {
            TextKind::Days => date(value, text),
            TextKind::Milliseconds => {
                let of_day = value.rem_euclid(MILLISECONDS_PER_DAY);
                date(value.div_euclid(MILLISECONDS_PER_DAY), text)
                    .and_then(|()| text.write_char('T'))
                    .and_then(|()| time(of_day, 1000, text))
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
        written.map_err(|error| ArrowError::CastError(error.to_string()))
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

/// Prints a date of the Gregorian calendar in ISO 8601. `days` is the number of days since
/// 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: i64, text: &mut impl Write) -> fmt::Result {
    const DAYS_PER_400_YEARS: i64 = 146_097;
    // Counts days from March 1 of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_400_YEARS), days.rem_euclid(DAYS_PER_400_YEARS));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    match year {
        0..=9999 => write!(text, "{year:04}-{month:02}-{day:02}"),
        _ => write!(text, "{year:+05}-{month:02}-{day:02}"),
    }
}

/// Prints a time of day, with 0, 3, 6 or 9 digits for the fraction of a second.
fn time(value: i64, per_second: i64, text: &mut impl Write) -> fmt::Result {
    let (seconds, part) = (value / per_second, value % per_second);
    write!(text, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    let nanoseconds = part * (1_000_000_000 / per_second);
    match nanoseconds {
        0 => Ok(()),
        _ if nanoseconds % 1_000_000 == 0 => write!(text, ".{:03}", nanoseconds / 1_000_000),
        _ if nanoseconds % 1000 == 0 => write!(text, ".{:06}", nanoseconds / 1000),
        _ => write!(text, ".{nanoseconds:09}"),
    }
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
        ArrayRef, Date32Array, Date64Array, DurationMillisecondArray, DurationNanosecondArray,
        DurationSecondArray, Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray,
        Time64NanosecondArray,
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

    #[test]
    fn dates_are_those_of_the_library() {
        let days: Vec<i32> = (-800_000..4_000_000).step_by(37).collect();
        let array: ArrayRef = Arc::new(Date32Array::from(days));
        let library = ArrayFormatter::try_new(&array, &FormatOptions::default()).unwrap();
        for (row, text) in texts(&array).into_iter().enumerate() {
            assert_eq!(text, library.value(row).to_string());
        }
    }
}
