//! Whether a type holds all that a text says: Arrow's kernels round decimals, cut off what a unit of time does not count, and
//! make infinities of floats that are too large, without a word.

use tensorferry_sdk::arrow_array::Array;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::timezone::Tz;
use tensorferry_sdk::arrow_array::types::{Float16Type, Float32Type, Float64Type};
use tensorferry_sdk::arrow_schema::{DataType, TimeUnit};

/// Whether a decimal, a date or a time of this type is all that the text says; of a text that is none, and of other types, yes.
#[must_use]
pub fn is_exact(text: &str, data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => {
            decimal_places(text).is_none_or(|places| places <= i64::from(*scale))
        }
        DataType::Date32 => {
            !text.split_once(['T', ' ']).is_some_and(|(_, time)| time.contains(|c| matches!(c, '1'..='9')))
        }
        DataType::Date64 => second_digits(text) <= 3,
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            second_digits(text)
                <= match unit {
                    TimeUnit::Second => 0,
                    TimeUnit::Millisecond => 3,
                    TimeUnit::Microsecond => 6,
                    TimeUnit::Nanosecond => 9,
                }
        }
        _ => true,
    }
}

/// The first of some floats that is an infinity although its text is a number.
pub fn overflowed<'a>(floats: &dyn Array, text: impl Fn(usize) -> &'a str) -> Option<usize> {
    let is_infinite = |row: usize| match floats.data_type() {
        DataType::Float16 => floats.as_primitive::<Float16Type>().value(row).is_infinite(),
        DataType::Float32 => floats.as_primitive::<Float32Type>().value(row).is_infinite(),
        _ => floats.as_primitive::<Float64Type>().value(row).is_infinite(),
    };
    let is_float = floats.data_type().is_floating();
    (0..floats.len())
        .find(|&row| is_float && floats.is_valid(row) && is_infinite(row) && has_digit(text(row)))
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The type whose texts can be parsed in place of one whose zone has a name, since the library knows no zones by name: the
/// moments are the same.
#[must_use]
pub fn in_offsets(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(unit, Some(zone)) if zone.parse::<Tz>().is_err() => {
            Some(DataType::Timestamp(*unit, Some("+00:00".into())))
        }
        _ => None,
    }
}

/// Whether a text says the moment of a time in this type's zone: one without an offset is a clock's of the zone, and what the
/// clocks of a zone show that has a name is not known here.
#[must_use]
pub fn is_moment(text: &str, data_type: &DataType) -> bool {
    let DataType::Timestamp(_, Some(zone)) = data_type else { return true };
    let has_offset = || {
        let time = text.split_once(['T', ' ']).map_or("", |(_, time)| time);
        time.ends_with(['Z', 'z']) || time.contains(['+', '-'])
    };
    matches!(&**zone, "UTC" | "Etc/UTC") || zone.parse::<Tz>().is_ok() || has_offset()
}

/// How many places behind the point a number needs, none of a text that is no number.
fn decimal_places(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(['+', '-']);
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if !has_digit(number) || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let needed = fraction.trim_end_matches('0').len();
    if needed > 0 {
        return Some(i64::try_from(needed).ok()?.saturating_sub(exponent));
    }
    let zeros = whole.len() - whole.trim_end_matches('0').len();
    // Zero needs none, however it is written.
    let is_zero = zeros == whole.len();
    (!is_zero)
        .then(|| 0_i64.saturating_sub(exponent).saturating_sub(i64::try_from(zeros).unwrap_or(i64::MAX)))
}

/// How many digits of a second's part a time has, zeros behind them left out.
fn second_digits(text: &str) -> usize {
    let Some((_, part)) = text.split_once('.') else { return 0 };
    let end = part.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(part.len());
    part[..end].trim_end_matches('0').len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorferry_sdk::arrow_array::Float32Array;

    #[test]
    fn what_a_type_does_not_hold_is_told() {
        let decimal = DataType::Decimal128(10, 1);
        let tens = DataType::Decimal128(10, -1);
        let time = |unit| DataType::Timestamp(unit, None);
        for (text, data_type, expected) in [
            ("1.55", &decimal, false),
            ("1.50", &decimal, true),
            ("-155e-1", &decimal, true),
            ("155e-2", &decimal, false),
            ("1.55e1", &decimal, true),
            ("0.000", &decimal, true),
            ("0e-9", &decimal, true),
            ("x", &decimal, true),
            ("150", &tens, true),
            ("155", &tens, false),
            ("2020-01-01", &DataType::Date32, true),
            ("2020-01-01T00:00:00.000", &DataType::Date32, true),
            ("2020-01-01T12:34:56", &DataType::Date32, false),
            ("2020-01-01T12:34:56.789Z", &time(TimeUnit::Second), false),
            ("2020-01-01T12:34:56.000Z", &time(TimeUnit::Second), true),
            ("2020-01-01T12:34:56.789", &time(TimeUnit::Millisecond), true),
            ("12:34:56.7891", &DataType::Time32(TimeUnit::Millisecond), false),
        ] {
            assert_eq!(is_exact(text, data_type), expected, "{text} {data_type}");
        }
    }

    #[test]
    fn an_infinity_is_a_word_or_too_large_a_number() {
        let floats = Float32Array::from(vec![Some(1.0), None, Some(f32::INFINITY), Some(f32::INFINITY)]);
        assert_eq!(overflowed(&floats, |row| ["1", "", "inf", "1e40"][row]), Some(3));
        assert_eq!(overflowed(&floats, |row| ["1", "", "inf", "inf"][row]), None);
    }

    #[test]
    fn a_clock_of_a_zone_with_a_name_is_no_moment() {
        let of = |zone: &str| DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
        for (text, zone, expected) in [
            ("2020-01-01T12:00:00", "UTC", true),
            ("2020-01-01T12:00:00", "+05:30", true),
            ("2020-01-01T12:00:00", "America/New_York", false),
            ("2020-01-01T12:00:00Z", "America/New_York", true),
            ("2020-01-01 12:00:00-05:00", "America/New_York", true),
        ] {
            assert_eq!(is_moment(text, &of(zone)), expected, "{text} {zone}");
        }
        assert_eq!(in_offsets(&of("UTC")), Some(of("+00:00")));
        assert_eq!(in_offsets(&of("+05:30")), None);
    }
}
