//! Finds the narrowest type that represents every number of a column exactly.

use tensorferry_sdk::arrow_schema::{DECIMAL256_MAX_PRECISION, DataType};
use tensorferry_sdk::{Loss, LossKind};

/// Properties of the numbers that have been read so far in a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Whether any number has a fraction or an exponent.
    pub(super) has_float: bool,
    /// Whether any integer is negative.
    is_negative: bool,
    /// The width into which all integers fit.
    width: Width,
}

/// Types that can represent all integers read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    /// Any 64-bit type, even a float, because no integer exceeds 2^53.
    #[default]
    Exact,
    Signed,
    Unsigned,
    /// A decimal type with this precision.
    Digits(u32),
}

impl Numbers {
    /// A float of at least 2^63 may be an integer in the text, because `serde_json` returns long
    /// integers as floats.
    pub(super) const LONG: f64 = 9_223_372_036_854_775_808.0;
    pub(super) const FLOAT: Self = Self { has_float: true, is_negative: false, width: Width::Exact };
    /// A float represents all integers up to this value exactly.
    const EXACT: u64 = 1 << 53;

    pub(super) fn of_u64(value: u64) -> Self {
        let width = match value {
            0..=Self::EXACT => Width::Exact,
            _ if i64::try_from(value).is_ok() => Width::Signed,
            _ => Width::Unsigned,
        };
        Self { width, ..Self::default() }
    }

    pub(super) fn of_i64(value: i64) -> Self {
        let width = if value.unsigned_abs() <= Self::EXACT { Width::Exact } else { Width::Signed };
        Self { has_float: false, is_negative: value < 0, width }
    }

    /// Parses the text of a number.
    pub(super) fn of_text(text: &str) -> Self {
        if text.contains(['.', 'e', 'E']) {
            return Self::FLOAT;
        }
        let digits = text.trim_start_matches('-');
        let is_negative = digits.len() < text.len();
        match text.parse::<i64>() {
            Ok(value) => Self::of_i64(value),
            Err(_) if text.parse::<u64>().is_ok() => Self { width: Width::Unsigned, ..Self::default() },
            Err(_) => {
                let width = Width::Digits(u32::try_from(digits.len()).unwrap_or(u32::MAX));
                Self { has_float: false, is_negative, width }
            }
        }
    }

    /// Returns the properties of all numbers that `self` and `other` describe.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            has_float: self.has_float || other.has_float,
            is_negative: self.is_negative || other.is_negative,
            width: self.width.max(other.width),
        }
    }

    /// Returns the precision of a decimal type for the integers, or `None` if an i64 or a u64 can
    /// represent all of them.
    fn digits(self) -> Option<u32> {
        match self.width {
            Width::Unsigned if self.is_negative => Some(20),
            Width::Digits(digits) => Some(digits.max(20)),
            _ => None,
        }
    }

    /// Returns the narrowest type that represents the numbers. The caller must have checked
    /// [`is_too_wide`](Self::is_too_wide), because no type supports more than 76 digits.
    pub(super) fn data_type(self) -> DataType {
        match (self.has_float, self.digits(), self.width) {
            (true, ..) => DataType::Float64,
            (_, Some(digits), _) if digits <= 38 => DataType::Decimal128(38, 0),
            (_, Some(_), _) => DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0),
            (_, None, Width::Unsigned) => DataType::UInt64,
            (_, None, _) => DataType::Int64,
        }
    }

    /// Returns whether no type can represent the numbers.
    pub(super) fn is_too_wide(self) -> bool {
        !self.has_float && self.digits().is_some_and(|digits| digits > u32::from(DECIMAL256_MAX_PRECISION))
    }

    /// Returns the loss of precision, if any.
    pub(super) fn loss(self, column: &str) -> Option<Loss> {
        let why = "integers beyond 2^53 are read as floats, since the column also has floats";
        (self.has_float && self.width > Width::Exact).then(|| Loss::new(LossKind::Precision, column, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> DataType {
        texts.iter().map(|text| Numbers::of_text(text)).fold(Numbers::default(), Numbers::and).data_type()
    }

    #[test]
    fn the_narrowest_exact_type() {
        assert_eq!(of(&["1", "-1"]), DataType::Int64);
        assert_eq!(of(&["1", "1.0"]), DataType::Float64);
        assert_eq!(of(&["1e3"]), DataType::Float64);
        assert_eq!(of(&["-9223372036854775808", "9223372036854775807"]), DataType::Int64);
        assert_eq!(of(&["9223372036854775808"]), DataType::UInt64);
        assert_eq!(of(&["18446744073709551615", "-1"]), DataType::Decimal128(38, 0));
        assert_eq!(of(&["18446744073709551616"]), DataType::Decimal128(38, 0));
        assert_eq!(of(&["-9223372036854775809"]), DataType::Decimal128(38, 0));
        assert_eq!(of(&[&"9".repeat(38)]), DataType::Decimal128(38, 0));
        assert_eq!(of(&[&"9".repeat(39)]), DataType::Decimal256(76, 0));
    }

    #[test]
    fn a_float_that_holds_no_integer_is_a_loss() {
        let with = |text| Numbers::FLOAT.and(Numbers::of_text(text)).loss("a");
        assert_eq!(with("9007199254740992"), None);
        assert_eq!(with("9007199254740993").map(|loss| loss.kind), Some(LossKind::Precision));
        assert_eq!(with("-9007199254740993").map(|loss| loss.kind), Some(LossKind::Precision));
    }
}
