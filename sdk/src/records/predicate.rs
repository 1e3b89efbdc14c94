//! A predicate is a list of comparisons that all have to be true of a row.
//!
//! What a comparison means, for hosts and readers alike:
//!
//! - A missing value, or one below a missing struct, makes no comparison true but `IsNull`; `IsNull` and `IsNotNull`
//!   look at no value.
//! - Whole numbers are compared with whole numbers exactly. All other numbers (floats of any width, decimals) are
//!   compared as 64-bit floats, whole numbers and decimals rounded to the nearest one.
//! - NaN is unequal to everything, itself too, and neither less nor greater than anything; -0 equals 0.
//! - Texts and bytes are compared bytewise, with one another too; a prefix is less than what it begins.
//! - Truths: false is less than true.
//! - Columns of other types (times, lists, structs), and columns of one of these kinds with a value of another, are not
//!   compared: a reader ignores such a comparison.

use super::FieldPath;
use std::cmp::Ordering;

/// A comparison of a column with values.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The column, or the field below structs.
    pub column: FieldPath,
    /// How it is compared.
    pub comparator: Comparator,
    /// With what: one value; none for [`Comparator::IsNull`] and [`Comparator::IsNotNull`]; any number of them for
    /// [`Comparator::In`].
    pub values: Vec<Value>,
}

/// How a column is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparator {
    /// Equal to the value.
    Equal,
    /// There, and not equal to the value.
    Unequal,
    /// Less than the value.
    Less,
    /// Less than the value, or equal.
    LessOrEqual,
    /// Greater than the value.
    Greater,
    /// Greater than the value, or equal.
    GreaterOrEqual,
    /// Missing.
    IsNull,
    /// There.
    IsNotNull,
    /// Equal to one of the values.
    In,
}

/// A value that columns are compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A truth.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number.
    Float(f64),
    /// The bytes of a text, or bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// How two values compare; none if they do not: kinds that are not compared, or NaN.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            _ => self.as_float()?.partial_cmp(&other.as_float()?),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "what comparing as floats means")]
    fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Bool(_) | Self::Bytes(_) => None,
        }
    }
}

/// What is known of a column's values in some rows without reading them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bounds {
    /// A value that none is less than, NaN aside; it need not be one of them. `None`: not known.
    pub least: Option<Value>,
    /// A value that none is greater than, NaN aside.
    pub greatest: Option<Value>,
    /// How many values are missing.
    pub nulls: Option<u64>,
    /// How many rows there are.
    pub rows: u64,
}

impl Comparison {
    /// Whether this is known to be true of no row whose values are within these bounds: such rows may be left out.
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

fn excludes(comparator: Comparator, value: &Value, bounds: &Bounds) -> bool {
    let least = || bounds.least.as_ref().and_then(|least| least.compare(value));
    let greatest = || bounds.greatest.as_ref().and_then(|greatest| greatest.compare(value));
    match comparator {
        Comparator::Equal => least().is_some_and(Ordering::is_gt) || greatest().is_some_and(Ordering::is_lt),
        Comparator::Less => least().is_some_and(Ordering::is_ge),
        Comparator::LessOrEqual => least().is_some_and(Ordering::is_gt),
        Comparator::Greater => greatest().is_some_and(Ordering::is_le),
        Comparator::GreaterOrEqual => greatest().is_some_and(Ordering::is_lt),
        // Bounds say nothing of NaN, which is unequal to all.
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
        let bounds = |least, greatest, nulls| Bounds { least, greatest, nulls, rows: 10 };
        let ints = |a, b| bounds(Some(Value::Int(a)), Some(Value::Int(b)), Some(0));
        let excluded = |comparator, values: &[Value], bounds: &Bounds| {
            Comparison { column: vec![0], comparator, values: values.to_vec() }.excludes(bounds)
        };
        let int = |value| [Value::Int(value)];
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
        assert!(excluded(In, &[Value::Int(1), Value::Int(11)], &ints(5, 9)));
        assert!(!excluded(In, &[Value::Int(1), Value::Int(7)], &ints(5, 9)));
        assert!(excluded(In, &[], &ints(5, 9)));
        // Numbers of two kinds are compared as floats: 2^53 + 1 is rounded.
        let wide = ints((1 << 53) + 1, (1 << 53) + 1);
        assert!(!excluded(Equal, &[Value::Float(9_007_199_254_740_992.0)], &wide));
        assert!(excluded(Equal, &int(1 << 53), &wide));
        // What is not compared excludes nothing.
        assert!(!excluded(Equal, &[Value::Bytes(b"5".to_vec())], &ints(1, 2)));
        assert!(!excluded(Less, &[Value::Float(f64::NAN)], &ints(1, 2)));
        let unknown = bounds(None, None, None);
        assert!(!excluded(Equal, &int(5), &unknown) && !excluded(IsNull, &[], &unknown));
        let all_null = bounds(None, None, Some(10));
        assert!(excluded(Unequal, &int(5), &all_null) && excluded(IsNotNull, &[], &all_null));
        assert!(!excluded(IsNull, &[], &all_null) && excluded(IsNull, &[], &ints(5, 9)));
        let texts = bounds(Some(Value::Bytes(b"ab".to_vec())), Some(Value::Bytes(b"b".to_vec())), None);
        assert!(excluded(Less, &[Value::Bytes(b"ab".to_vec())], &texts));
        assert!(!excluded(GreaterOrEqual, &[Value::Bytes(b"a\xff".to_vec())], &texts));
    }
}
