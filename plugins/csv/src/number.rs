//! Numbers in the notation that most files use. All other notations take a slower path.

use crate::dialect::ONES;
use tensorferry_row_text::{eight_digits, exact};

/// Maximum number of digits that always fit into 63 bits.
const MAX_INTEGER_DIGITS: usize = 18;
/// Maximum number of digits that always fit into 64 bits.
const MAX_FLOAT_DIGITS: usize = 19;
/// Maximum number for which a float64 represents all quotients by [`POWERS`] to the last decimal
/// digit: the distance between two floats near the quotient is at most one unit of this digit.
const MAX_EXACT_DIVIDEND: u64 = 1 << 52;
/// Powers of ten. A float64 represents all of them exactly.
const POWERS: [u64; MAX_FLOAT_DIGITS] = {
    let mut powers = [1; MAX_FLOAT_DIGITS];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = powers[place - 1] * 10;
        place += 1;
    }
    powers
};
/// Number of digits in a word, and a word of zeros.
const WORD: usize = 8;
const ZEROS: u64 = ONES * 0x30;

/// Parses an integer of up to 18 digits, without leading zeros or a plus sign. The text is the part
/// of `bytes` from index `start`. The bytes before the text are not parsed, but if there are any,
/// parsing is faster. Returns `None` for any other text, including `-0`.
pub(crate) fn integer(bytes: &[u8], start: usize) -> Option<i64> {
    let (is_negative, start) = sign(bytes, start);
    let count = bytes.len() - start;
    let is_common =
        (1..=MAX_INTEGER_DIGITS).contains(&count) && (bytes[start] != b'0' || count == 1 && !is_negative);
    if !is_common {
        return None;
    }
    let value = i64::try_from(digits(bytes, start)?).ok()?;
    Some(if is_negative { -value } else { value })
}

/// Parses a number of up to 19 digits, without leading zeros, an exponent or a plus sign. The text
/// is the part of `bytes` from index `start`, as for [`integer`]. Returns `None` for any other text,
/// and if a float64 loses digits of the number.
pub(crate) fn float(bytes: &[u8], start: usize) -> Option<f64> {
    let (is_negative, from) = sign(bytes, start);
    let point = from + find_point(&bytes[from..]);
    let places = bytes.len().saturating_sub(point + 1);
    let count = point - from + places;
    let has_leading_zero = bytes.get(from) == Some(&b'0') && point - from > 1;
    if point == from || point + 1 == bytes.len() || has_leading_zero || count > MAX_FLOAT_DIGITS {
        return None;
    }
    let fraction = if places == 0 { 0 } else { digits(bytes, point + 1)? };
    let value = digits(&bytes[..point], from)? * POWERS[places] + fraction;
    if value <= MAX_EXACT_DIVIDEND {
        // The quotient of two exact floats is rounded once.
        #[expect(clippy::cast_precision_loss, reason = "both numbers are exact")]
        let value = value as f64 / POWERS[places] as f64;
        return Some(value.copysign(if is_negative { -1.0 } else { 1.0 }));
    }
    // The kind of a large integer records whether a float represents all integers of its size.
    let text = std::str::from_utf8(&bytes[start..]).ok().filter(|_| places > 0)?;
    text.parse().ok().filter(|value| !exact::loses_digits(text, *value))
}

/// Returns whether a text is negative, and the index of its first digit.
fn sign(bytes: &[u8], start: usize) -> (bool, usize) {
    let is_negative = bytes.get(start) == Some(&b'-');
    (is_negative, start + usize::from(is_negative))
}

/// Returns the index of the first point, or the length of the text.
fn find_point(text: &[u8]) -> usize {
    if let Some(word) = text.first_chunk() {
        // The lowest bit that is set is in the first byte that is a point.
        let differs = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'.'));
        let found = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if found != 0 {
            return found.trailing_zeros() as usize / 8;
        }
    }
    text.iter().position(|byte| *byte == b'.').unwrap_or(text.len())
}

/// Returns the number of up to 19 digits at the end of `bytes`, from index `start`, or `None` if any
/// of these bytes is not a digit.
fn digits(bytes: &[u8], start: usize) -> Option<u64> {
    if let [digit] = &bytes[start..] {
        return digit.is_ascii_digit().then_some(u64::from(digit.wrapping_sub(b'0')));
    }
    let (mut value, mut scale, mut end) = (0, 1, bytes.len());
    while end > start {
        let count = (end - start).min(WORD);
        let word = match bytes[..end].last_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; WORD];
                word[WORD - count..].copy_from_slice(&bytes[end - count..end]);
                u64::from_le_bytes(word)
            }
        };
        // Replaces the bytes before the digits with zeros.
        let before = (1 << (8 * (WORD - count))) - 1;
        value += scale * eight_digits(((word & !before) | (ZEROS & before)).to_le_bytes())?;
        (scale, end) = (scale.wrapping_mul(100_000_000), end - count);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_or_left_to_the_slower_path() {
        for text in ["0", "7", "-1", "12345678", "-123456789012345678", "999999999999999999"] {
            assert_eq!(integer(text.as_bytes(), 0), text.parse().ok(), "{text}");
        }
        for text in ["", "-", "-0", "00", "01", "-01", "+1", "1.0", "1e3", " 1", "1 ", "1234567890123456789"]
        {
            assert_eq!(integer(text.as_bytes(), 0), None, "{text}");
        }
        for place in 0..8 {
            for byte in u8::MIN..=u8::MAX {
                let mut text = *b"12345678";
                text[place] = byte;
                let expected = std::str::from_utf8(&text).ok().filter(|_| byte.is_ascii_digit());
                let expected = expected.or(text.starts_with(b"-").then_some("-2345678"));
                let expected = expected.filter(|text| !text.starts_with('0'));
                assert_eq!(integer(&text, 0), expected.and_then(|text| text.parse().ok()), "{text:?}");
            }
        }
    }

    #[test]
    fn floats_are_the_nearest_or_left_to_the_slower_path() {
        for text in [
            "0",
            "-0",
            "0.0",
            "-0.000",
            "1",
            "0.1",
            "-2.5",
            "123456789012345",
            "0.00000000000001",
            "99999999.9999999",
            "0.30000000000000004",
            "9007199254740993.5",
            "-1234567.123456789",
            "4503599627370496",
        ] {
            let expected: f64 = text.parse().unwrap_or(f64::NAN);
            let expected = Some(expected.to_bits()).filter(|_| text != "9007199254740993.5");
            assert_eq!(float(text.as_bytes(), 0).map(f64::to_bits), expected, "{text}");
        }
        for text in [
            "",
            "-",
            ".",
            "1.",
            ".5",
            "00.5",
            "1e5",
            "NaN",
            "1.2.3",
            "1.5 ",
            "4503599627370497",
            "12345678901234567890",
        ] {
            assert_eq!(float(text.as_bytes(), 0), None, "{text}");
        }
        let mut state = 1_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let dividend = state >> (12 + state % 40);
            let places = usize::try_from(state >> 60).unwrap_or_default();
            let text = format!("{dividend:0width$}", width = places + 1);
            let (whole, fraction) = text.split_at(text.len() - places);
            let text = if places == 0 { text } else { format!("{whole}.{fraction}") };
            let value = text.parse().unwrap_or(f64::NAN);
            assert_eq!(float(format!("1,{text}").as_bytes(), 2), Some(value), "{text}");
            assert!(!exact::loses_digits(&text, value), "{text}");
        }
    }
}
