//! A predicate is a list of comparisons. A row matches only if all comparisons are true.
//!
//! Hosts and readers must both follow these rules:
//!
//! - A missing value, or a value in a missing struct, makes every comparison except `IsNull` false.
//!   `IsNull` and `IsNotNull` do not examine the value itself.
//! - Integers are compared with integers exactly. All other numbers (floats of any width, decimals)
//!   are compared as 64-bit floats. For such a comparison, integers and decimals are rounded to the
//!   nearest float.
//! - NaN is unequal to everything, including itself, and is neither less nor greater than any
//!   value. -0 is equal to 0.
//! - Strings and bytes are compared byte by byte. A string can also be compared with bytes. A
//!   prefix is less than a longer string that begins with it.
//! - The boolean false is less than true.
//! - Columns of other types, such as times, lists and structs, cannot be compared. A column also
//!   cannot be compared with a value of a different kind. A reader ignores such comparisons.

use super::FieldPath;
use std::cmp::Ordering;

/// A comparison of a column with values.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Column, or field inside structs.
    pub column: FieldPath,
    /// Kind of comparison.
    pub comparator: Comparator,
    /// Values to compare with. [`Comparator::IsNull`] and [`Comparator::IsNotNull`] need no values,
    /// [`Comparator::In`] accepts any number of values, and all other comparators need one value.
    pub values: Vec<ComparedValue>,
}

/// A kind of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparator {
    /// The column's value is equal to the given value.
    Equal,
    /// The column's value is present and not equal to the given value.
    Unequal,
    /// The column's value is less than the given value.
    Less,
    /// The column's value is less than or equal to the given value.
    LessOrEqual,
    /// The column's value is greater than the given value.
    Greater,
    /// The column's value is greater than or equal to the given value.
    GreaterOrEqual,
    /// The column's value is missing.
    IsNull,
    /// The column's value is present.
    IsNotNull,
    /// The column's value is equal to one of the given values.
    In,
}

/// A value to compare columns with.
#[derive(Debug, Clone, PartialEq)]
pub enum ComparedValue {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// A string in UTF-8, or arbitrary bytes.
    Bytes(Vec<u8>),
}

impl ComparedValue {
    /// Compares two values. Returns `None` for NaN, and for kinds that cannot be compared with each
    /// other.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            _ => self.as_float()?.partial_cmp(&other.as_float()?),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of two kinds are compared as floats")]
    fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Bool(_) | Self::Bytes(_) => None,
        }
    }
}

/// Bounds on the values of a column in a group of rows. Bounds are known without reading the rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bounds {
    /// A lower bound of the values, or `None` if it is unknown. NaN is ignored. The bound is not
    /// necessarily one of the values.
    pub min: Option<ComparedValue>,
    /// An upper bound of the values, or `None` if it is unknown. NaN is ignored. The bound is not
    /// necessarily one of the values.
    pub max: Option<ComparedValue>,
    /// Number of missing values, or `None` if it is unknown.
    pub nulls: Option<u64>,
    /// Number of rows.
    pub rows: u64,
}

impl Comparison {
    /// Returns whether the comparison must be false for every row within these bounds. A reader may
    /// omit such rows.
    #[must_use]
    pub fn excludes(&self, bounds: &Bounds) -> bool {
        let is_all_null = bounds.nulls.is_some_and(|nulls| nulls >= bounds.rows);
        match self.comparator {
            Comparator::IsNull => bounds.nulls == Some(0),
            Comparator::IsNotNull => is_all_null,
            _ if is_all_null => true,
            Comparator::In => self.values.iter().all(|value| excludes(Comparator::Equal, value, bounds)),
            comparator => self.values.first().is_some_and(|value| excludes(comparator, value, bounds)),
        }
    }
}

fn excludes(comparator: Comparator, value: &ComparedValue, bounds: &Bounds) -> bool {
    let min = || bounds.min.as_ref().and_then(|min| min.compare(value));
    let max = || bounds.max.as_ref().and_then(|max| max.compare(value));
    match comparator {
        Comparator::Equal => min().is_some_and(Ordering::is_gt) || max().is_some_and(Ordering::is_lt),
        Comparator::Less => min().is_some_and(Ordering::is_ge),
        Comparator::LessOrEqual => min().is_some_and(Ordering::is_gt),
        Comparator::Greater => max().is_some_and(Ordering::is_le),
        Comparator::GreaterOrEqual => max().is_some_and(Ordering::is_lt),
        // NaN is unequal to every value, and the bounds ignore NaN.
        Comparator::Unequal => false,
        Comparator::IsNull | Comparator::IsNotNull | Comparator::In => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_left_out_only_where_none_can_match() {
        use Comparator::{Equal, Greater, GreaterOrEqual, In, IsNotNull, IsNull, Less, LessOrEqual, Unequal};
        let bounds = |min, max, nulls| Bounds { min, max, nulls, rows: 10 };
        let ints = |a, b| bounds(Some(ComparedValue::Int(a)), Some(ComparedValue::Int(b)), Some(0));
        let excluded = |comparator, values: &[ComparedValue], bounds: &Bounds| {
            Comparison { column: vec![0], comparator, values: values.to_vec() }.excludes(bounds)
        };
        let int = |value| [ComparedValue::Int(value)];
        for (comparator, value, expected) in [
            (Equal, 4, true),
            (Equal, 5, false),
            (Equal, 9, false),
            (Equal, 10, true),
            (Unequal, 5, false),
            (Less, 5, true),
            (Less, 6, false),
            (LessOrEqual, 4, true),
            (LessOrEqual, 5, false),
            (Greater, 9, true),
            (Greater, 8, false),
            (GreaterOrEqual, 10, true),
            (GreaterOrEqual, 9, false),
        ] {
            assert_eq!(excluded(comparator, &int(value), &ints(5, 9)), expected, "{comparator:?} {value}");
        }
        assert!(!excluded(Unequal, &int(5), &ints(5, 5)));
        assert!(excluded(In, &[ComparedValue::Int(1), ComparedValue::Int(11)], &ints(5, 9)));
        assert!(!excluded(In, &[ComparedValue::Int(1), ComparedValue::Int(7)], &ints(5, 9)));
        assert!(excluded(In, &[], &ints(5, 9)));
        // Numbers of different kinds are compared as floats, so 2^53 + 1 is rounded to 2^53.
        let wide = ints((1 << 53) + 1, (1 << 53) + 1);
        assert!(!excluded(Equal, &[ComparedValue::Float(9_007_199_254_740_992.0)], &wide));
        assert!(excluded(Equal, &int(1 << 53), &wide));
        // Values that cannot be compared do not exclude any rows.
        assert!(!excluded(Equal, &[ComparedValue::Bytes(b"5".to_vec())], &ints(1, 2)));
        assert!(!excluded(Less, &[ComparedValue::Float(f64::NAN)], &ints(1, 2)));
        let unknown = bounds(None, None, None);
        assert!(!excluded(Equal, &int(5), &unknown) && !excluded(IsNull, &[], &unknown));
        let all_null = bounds(None, None, Some(10));
        assert!(excluded(Unequal, &int(5), &all_null) && excluded(IsNotNull, &[], &all_null));
        assert!(!excluded(IsNull, &[], &all_null) && excluded(IsNull, &[], &ints(5, 9)));
        let texts = bounds(
            Some(ComparedValue::Bytes(b"ab".to_vec())),
            Some(ComparedValue::Bytes(b"b".to_vec())),
            None,
        );
        assert!(excluded(Less, &[ComparedValue::Bytes(b"ab".to_vec())], &texts));
        assert!(!excluded(GreaterOrEqual, &[ComparedValue::Bytes(b"a\xff".to_vec())], &texts));
    }
}
