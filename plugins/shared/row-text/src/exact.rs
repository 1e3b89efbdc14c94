//! Checks whether a column type can represent the number, date or time in a string exactly. Arrow's
//! kernels silently round decimals, truncate times to their unit, and convert floats that are too
//! large to infinities.

use tensorferry_sdk::arrow_array::Array;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::timezone::Tz;
use tensorferry_sdk::arrow_array::types::{Float16Type, Float32Type, Float64Type};
use tensorferry_sdk::arrow_schema::{DataType, TimeUnit};

/// Returns whether a decimal, date or time type can represent the value of a string exactly.
/// Returns true for invalid strings and for other types.
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

/// Returns the index of the first infinite float that was parsed from a string with digits.
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

/// The reason for the loss that is reported if [`loses_digits`] returns true for a value in a
/// column.
pub const LOST_DIGITS: &str = "numbers with more digits than a 64-bit float can represent are rounded: -i schema=FILE can set a different type for the column";

/// Number of significant digits that a 64-bit float can always represent, except for subnormal
/// numbers.
const EXACT_DIGITS: usize = 15;
/// Maximum number of significant decimal digits in the exact value of a 64-bit float.
const MAX_DIGITS: usize = 767;

/// Returns whether parsing a string as a 64-bit float loses precision. Prints the float with the
/// same number of digits, and compares the result with the string.
#[must_use]
pub fn loses_digits(text: &str, value: f64) -> bool {
    if !value.is_finite() || (value.is_normal() && text.len() <= EXACT_DIGITS) {
        return false;
    }
    let text = text.trim_start_matches(['+', '-']);
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    if value == 0.0 {
        return number.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    }
    if let Some(lost) = is_rounded(number, exponent, value.abs()) {
        return lost;
    }
    let digits: Vec<u8> =
        number.bytes().filter(|byte| *byte != b'.').skip_while(|byte| *byte == b'0').collect();
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    let digits = &digits[..digits.len() - zeros];
    if digits.is_empty() || (value.is_normal() && digits.len() <= EXACT_DIGITS) {
        return false;
    }
    if digits.len() > MAX_DIGITS {
        return true;
    }
    let printed = format!("{:.*e}", digits.len() - 1, value.abs());
    let printed = printed.split_once('e').map_or(&*printed, |(number, _)| number);
    !printed.bytes().filter(|byte| *byte != b'.').eq(digits.iter().copied())
}

/// Returns whether a float differs from a number of up to 17 digits by more than half a unit in the
/// number's last digit. Returns `None` if the calculation would need more than 128 bits, or if the
/// last digit of the number is zero.
fn is_rounded(number: &str, exponent: &str, value: f64) -> Option<bool> {
    let (mut digits, mut count, mut places, mut is_behind_point) = (0_u64, 0, 0_i64, false);
    for byte in number.bytes() {
        match byte {
            b'.' => is_behind_point = true,
            b'0'..=b'9' if count < 17 => {
                digits = 10 * digits + u64::from(byte - b'0');
                count += u32::from(digits > 0);
                places += i64::from(is_behind_point);
            }
            _ => return None,
        }
    }
    if digits.is_multiple_of(10) {
        return None;
    }
    let places = places.checked_sub(exponent.parse().ok()?)?;
    let scale = 10_u128.pow(u32::try_from(places).ok().filter(|places| *places <= 22)?);
    let bits = value.to_bits();
    let shift = u32::try_from(1075 - i64::try_from(bits >> 52).ok()?).ok().filter(|shift| *shift <= 70)?;
    let held = u128::from((bits & ((1 << 52) - 1)) | (1 << 52)) * scale;
    Some((u128::from(digits) << shift).abs_diff(held) > 1 << shift >> 1)
}

/// If a timestamp type has a named time zone, returns the type with a UTC offset instead, because
/// Arrow's parser does not support zone names. The instants are unchanged.
#[must_use]
pub fn with_utc_offset(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(unit, Some(zone)) if zone.parse::<Tz>().is_err() => {
            Some(DataType::Timestamp(*unit, Some("+00:00".into())))
        }
        _ => None,
    }
}

/// Returns whether a timestamp string can be parsed correctly as this type. A string without a UTC
/// offset is a local time. For a type with a named zone, Arrow's parser cannot convert a local time
/// to an instant. For a type without a zone, the parser would convert a string with an offset to
/// UTC, so the string must be a local time.
#[must_use]
pub fn is_instant(text: &str, data_type: &DataType) -> bool {
    let DataType::Timestamp(_, zone) = data_type else { return true };
    let time = text.split_once(['T', ' ']).map_or("", |(_, time)| time);
    let Some(zone) = zone else {
        let offset = time.split_once(['+', '-']).map_or("", |(_, offset)| offset);
        return !offset.contains(|digit| matches!(digit, '1'..='9'));
    };
    let has_offset = || time.ends_with(['Z', 'z']) || time.contains(['+', '-']);
    matches!(&**zone, "UTC" | "Etc/UTC") || zone.parse::<Tz>().is_ok() || has_offset()
}

/// Returns the number of decimal places that the number in a string requires, or `None` if the
/// string is not a number.
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
    // Zero needs no decimal places, regardless of how it is written.
    let is_zero = zeros == whole.len();
    (!is_zero)
        .then(|| 0_i64.saturating_sub(exponent).saturating_sub(i64::try_from(zeros).unwrap_or(i64::MAX)))
}

/// Returns the number of digits after the decimal point of the seconds, without trailing zeros.
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
    fn digits_that_a_float_does_not_hold_are_lost() {
        for (text, expected) in [
            ("0", false),
            ("-0.0e-400", false),
            ("0.1", false),
            ("123456789.125", false),
            ("1.50000000000000000000000", false),
            ("100000000000000000000000", false),
            ("0.8444218515250481", false),
            ("0.12345678955888748", false),
            ("-2.2250738585072014e-308", false),
            ("5e-324", false),
            ("4.9406564584124654e-324", false),
            ("1.7976931348623157e308", false),
            ("0.1000000000000000055511151231257827", false),
            ("9007199254740993", true),
            ("9007199254740992", false),
            ("9007199254740993.5", true),
            ("123456789012345678.25", true),
            ("0.12345678901234567890", true),
            ("1e-400", true),
            ("1.1e-323", true),
            ("3.14159265358979323846", true),
        ] {
            assert_eq!(loses_digits(text, text.parse().unwrap_or(f64::NAN)), expected, "{text}");
        }
        let long = format!("0.{}", "1".repeat(100_000));
        assert!(loses_digits(&long, 1.0 / 9.0));
    }

    #[test]
    fn what_a_float_prints_is_held() {
        // The test values come from a Lehmer generator. Parsing the shortest representation of a
        // float, or its 17-digit representation, must yield the same float.
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            for value in [f64::from_bits(state), (state >> 11) as f64 / (1_u64 << 53) as f64] {
                let Some(value) = Some(value).filter(|value| value.is_finite()) else { continue };
                for text in [format!("{value}"), format!("{value:e}"), format!("{value:.16e}")] {
                    assert!(!loses_digits(&text, value), "{text}");
                }
            }
            let digits = (state >> 4) % 90_000_000_000_000_000 + 10_000_000_000_000_001;
            let value = format!("0.{digits}").parse::<f64>().unwrap_or(f64::NAN);
            let printed = format!("{value:.16e}").replace('.', "");
            let held = printed.starts_with(&digits.to_string());
            if digits.is_multiple_of(10) {
                continue;
            }
            assert_eq!(loses_digits(&format!("0.{digits}"), value), !held, "{digits}");
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
            assert_eq!(is_instant(text, &of(zone)), expected, "{text} {zone}");
        }
        let clock = DataType::Timestamp(TimeUnit::Second, None);
        for (text, expected) in [
            ("2020-01-01T12:00:00", true),
            ("2020-01-01T12:00:00Z", true),
            ("2020-01-01 12:00:00+00:00", true),
            ("2020-01-01T12:00:00+02:00", false),
            ("2020-01-01", true),
        ] {
            assert_eq!(is_instant(text, &clock), expected, "{text}");
        }
        assert_eq!(with_utc_offset(&of("UTC")), Some(of("+00:00")));
        assert_eq!(with_utc_offset(&of("+05:30")), None);
    }
}
