//! Kinds of text values, such as integers and dates, and the column types that are inferred from
//! them.

use crate::moment::Moment;
use crate::number::integer;
use tensorferry_row_text::exact;
use tensorferry_sdk::arrow_schema::{DataType, TimeUnit};

/// Maximum length of a number without an exponent that a float64 always represents exactly.
const MAX_EXACT_DIGITS: usize = 15;

/// A float64 represents all integers up to this value exactly.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// The common kind of the values that have been read so far from a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    /// No values.
    #[default]
    None,
    /// Empty strings. In a column that also has values of a different kind, they are nulls.
    Empty,
    Bool,
    /// Integers. The flags are set if any integer is negative (`negative`), does not fit into an
    /// int64 (`large`), or cannot be represented exactly by a float64 (`beyond`).
    Whole {
        negative: bool,
        large: bool,
        beyond: bool,
    },
    /// Numbers. `beyond` is set if a float64 cannot represent all of the numbers exactly.
    Float {
        beyond: bool,
    },
    Date,
    /// Times with this many fractional digits (0, 3, 6 or 9). `zone` is set if the times have a
    /// time zone. `far` is set if 64-bit nanoseconds cannot represent the year of at least one of
    /// the times.
    Time {
        digits: u8,
        zone: bool,
        far: bool,
    },
    Text,
}

impl Kind {
    /// Returns the kind of a value that is not null.
    pub(crate) fn of(text: &[u8]) -> Self {
        let Some(first) = text.first() else { return Self::Empty };
        match first {
            b'-' | b'.' | b'0'..=b'9' => number(text).or_else(|| moment(text)).unwrap_or(Self::Text),
            b't' | b'T' | b'f' | b'F' if is_bool(text) => Self::Bool,
            b'+' | b'N' | b'n' | b'I' | b'i' if is_non_number(text) => Self::Float { beyond: false },
            _ => Self::Text,
        }
    }

    /// Returns the kind of a column that has values of both kinds.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, kind) | (kind, Self::None) | (Self::Empty, kind) | (kind, Self::Empty) => kind,
            (
                Self::Whole { negative, large, beyond },
                Self::Whole { negative: negative_too, large: large_too, beyond: beyond_too },
            ) => {
                let (negative, large) = (negative || negative_too, large || large_too);
                // No 64-bit type can represent both negative numbers and numbers above the int64
                // maximum.
                if negative && large {
                    return Self::Text;
                }
                Self::Whole { negative, large, beyond: beyond || beyond_too }
            }
            (Self::Whole { beyond, .. } | Self::Float { beyond }, Self::Float { beyond: too })
            | (Self::Float { beyond: too }, Self::Whole { beyond, .. }) => {
                Self::Float { beyond: beyond || too }
            }
            (
                Self::Time { digits, zone, far },
                Self::Time { digits: other_digits, zone: other_zone, far: other_far },
            ) if zone == other_zone => {
                let (digits, far) = (digits.max(other_digits), far || other_far);
                // A 64-bit timestamp with nine fractional digits cannot represent years that are
                // marked as `far`.
                if far && digits == 9 { Self::Text } else { Self::Time { digits, zone, far } }
            }
            (one, other) if one == other => one,
            _ => Self::Text,
        }
    }

    /// Returns whether a column of this kind has the same type and the same losses after a value of
    /// a different kind is added.
    pub(crate) fn admits(self, other: Self) -> bool {
        let both = self.and(other);
        both.data_type() == self.data_type() && both.loses_digits() == self.loses_digits()
    }

    /// Returns whether a column of this kind cannot represent all of its numbers exactly.
    pub(crate) fn loses_digits(self) -> bool {
        matches!(self, Self::Float { beyond: true })
    }

    /// Returns whether a value of this kind fits a column whose type was inferred.
    pub(crate) fn fits(self, data_type: &DataType) -> bool {
        match (self, data_type) {
            (Self::Bool, DataType::Boolean)
            | (Self::Whole { large: false, .. }, DataType::Int64)
            | (Self::Whole { negative: false, .. }, DataType::UInt64)
            | (Self::Whole { .. } | Self::Float { .. }, DataType::Float64)
            | (Self::Date, DataType::Date32) => true,
            (Self::Time { digits, zone, .. }, DataType::Timestamp(unit, column_zone)) => {
                let max = match unit {
                    TimeUnit::Second => 0,
                    TimeUnit::Millisecond => 3,
                    TimeUnit::Microsecond => 6,
                    TimeUnit::Nanosecond => 9,
                };
                digits <= max && zone == column_zone.is_some()
            }
            _ => false,
        }
    }

    /// Returns the type of a column with values of this kind.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::None => DataType::Null,
            Self::Bool => DataType::Boolean,
            Self::Whole { large: true, .. } => DataType::UInt64,
            Self::Whole { .. } => DataType::Int64,
            Self::Float { .. } => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Time { digits, zone, .. } => {
                let unit = match digits {
                    0 => TimeUnit::Second,
                    3 => TimeUnit::Millisecond,
                    6 => TimeUnit::Microsecond,
                    _ => TimeUnit::Nanosecond,
                };
                DataType::Timestamp(unit, zone.then(|| "UTC".into()))
            }
            Self::Text | Self::Empty => DataType::Utf8,
        }
    }
}

fn is_bool(text: &[u8]) -> bool {
    matches!(text, b"true" | b"false" | b"True" | b"False" | b"TRUE" | b"FALSE")
}

/// Returns whether the string is NaN or an infinity as written in C, Python, R, Java or JavaScript.
fn is_non_number(text: &[u8]) -> bool {
    let word = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    [&b"nan"[..], b"inf", b"infinity"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Parses a number in JSON notation, except that the part before or after the decimal point may be
/// missing. An integer with leading zeros is an identifier, not a number.
fn number(text: &[u8]) -> Option<Kind> {
    if is_non_number(text) {
        return Some(Kind::Float { beyond: false });
    }
    let negative = text[0] == b'-';
    if let Some(value) = integer(text, 0) {
        let beyond = value.unsigned_abs() > MAX_EXACT_INTEGER;
        return Some(Kind::Whole { negative, large: false, beyond });
    }
    let digits = &text[usize::from(negative)..];
    let count = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = count(digits);
    if whole > 1 && digits[0] == b'0' {
        return None;
    }
    let mut rest = &digits[whole..];
    if rest.is_empty() && whole > 0 {
        if negative && digits == b"0" {
            return Some(Kind::Float { beyond: false });
        }
        let value = std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
        let fits = !negative || value <= 1 << 63;
        let large = !negative && i64::try_from(value).is_err();
        return fits.then_some(Kind::Whole { negative, large, beyond: value > MAX_EXACT_INTEGER });
    }
    let mut any = whole;
    if let [b'.', fraction @ ..] = rest {
        let len = count(fraction);
        (any, rest) = (any + len, &fraction[len..]);
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let len = count(exponent);
        if len == 0 {
            return None;
        }
        rest = &exponent[len..];
    }
    if any == 0 || !rest.is_empty() {
        return None;
    }
    if text.len() <= MAX_EXACT_DIGITS && !text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return Some(Kind::Float { beyond: false });
    }
    let text = std::str::from_utf8(text).ok()?;
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    Some(Kind::Float { beyond: exact::loses_digits(text, value) })
}

/// Parses a date, or a date and a time.
fn moment(text: &[u8]) -> Option<Kind> {
    let moment = Moment::parse(text)?;
    let Some(clock) = moment.clock else { return Some(Kind::Date) };
    let (digits, far) = (clock.digits, moment.is_far());
    (digits < 9 || !far).then_some(Kind::Time { digits, zone: clock.has_zone(), far })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> DataType {
        texts.iter().fold(Kind::None, |kind, text| kind.and(Kind::of(text.as_bytes()))).data_type()
    }

    #[test]
    fn digits_that_a_float_does_not_hold_are_told() {
        let of = |text: &str| Kind::of(text.as_bytes());
        for text in ["123456789012345678.25", "1e-400", "0.12345678901234567890"] {
            assert_eq!(of(text), Kind::Float { beyond: true }, "{text}");
        }
        for text in ["0.30000000000000004", "1e-300", "0e-400", "1.50000000000000000000"] {
            assert_eq!(of(text), Kind::Float { beyond: false }, "{text}");
        }
    }

    #[test]
    fn types_are_what_the_values_are() {
        use TimeUnit::{Microsecond, Millisecond, Second};
        for (texts, expected) in [
            (&[][..], DataType::Null),
            (&["1", "-5", "0"], DataType::Int64),
            (&["-9223372036854775808"], DataType::Int64),
            (&["18446744073709551615", "1"], DataType::UInt64),
            (&["18446744073709551615", "-1"], DataType::Utf8),
            (&["18446744073709551616"], DataType::Utf8),
            (&["007"], DataType::Utf8),
            (&["1", "007"], DataType::Utf8),
            (&["+1"], DataType::Utf8),
            (&["00.5"], DataType::Utf8),
            (&["-"], DataType::Utf8),
            (&["1e"], DataType::Utf8),
            (&["."], DataType::Utf8),
            (&["1", "0.5", "1e-300", ".5", "5.", "-0", "NaN", "-inf"], DataType::Float64),
            (&["1", "nan", "NAN", "-nan", "inf", "+inf", "Inf", "Infinity", "-Infinity"], DataType::Float64),
            (&["1", "infinit"], DataType::Utf8),
            (&["1", "+1"], DataType::Utf8),
            (&["1", "1e400"], DataType::Utf8),
            (&["True", "false"], DataType::Boolean),
            (&["true", "1"], DataType::Utf8),
            (&["2024-02-29"], DataType::Date32),
            (&["2023-02-29"], DataType::Utf8),
            (&["2024-02-29T12:30:00"], DataType::Timestamp(Second, None)),
            (&["2024-02-29 12:30:00.5", "2024-02-29T12:30:00"], DataType::Timestamp(Millisecond, None)),
            (&["2024-02-29T12:30:00.000001+02:00"], DataType::Timestamp(Microsecond, Some("UTC".into()))),
            (&["2024-02-29T12:30:00Z", "2024-02-29T12:30:00"], DataType::Utf8),
            (&["3000-01-01T00:00:00.000000001"], DataType::Utf8),
            (&["2024-01-01T00:00:00.123456789", "3000-01-01T00:00:00"], DataType::Utf8),
            (&["3000-01-01T00:00:00", "2024-01-01T00:00:00.123456789"], DataType::Utf8),
            (&["2024-01-01T00:00:00.123456", "3000-01-01T00:00:00"], DataType::Timestamp(Microsecond, None)),
            (&["2024-01-01T00:00:00+24:00"], DataType::Utf8),
            (&["2024-01-01T00:00:00+23:59"], DataType::Timestamp(Second, Some("UTC".into()))),
            (&["2024-02-29", "2024-02-29T12:30:00"], DataType::Utf8),
            (&[" 1"], DataType::Utf8),
        ] {
            assert_eq!(of(texts), expected, "{texts:?}");
        }
    }
}
