//! Statistics of a sequence of numbers of any dtype, and statistics of a whole tensor.

use super::histogram::Histogram;
use super::moments::Moments;

/// A number that is represented exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A number of an integer dtype, or of BOOL.
    Integer(i128),
    /// A number of a float dtype.
    Float(f64),
}

impl Number {
    /// Rounds the number to the nearest F64.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    fn is_less(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a < b,
            (a, b) => a.as_f64() < b.as_f64(),
        }
    }
}

/// Statistics of a tensor's numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    /// Number of elements.
    pub count: u64,
    /// Number of finite elements. The next four fields apply to these elements.
    pub finite: u64,
    pub min: Option<Number>,
    pub max: Option<Number>,
    pub mean: Option<f64>,
    /// The population standard deviation; infinite if its square exceeds the range of F64.
    pub deviation: Option<f64>,
    /// Number of zeros of either sign.
    pub zeros: u64,
    /// Number of NaN elements.
    pub nan: u64,
    /// Number of positive infinities.
    pub positive_infinities: u64,
    /// Number of negative infinities.
    pub negative_infinities: u64,
    /// Number of subnormal floats. A subnormal float is a nonzero number whose magnitude is less
    /// than its dtype's smallest normal number.
    pub subnormals: u64,
    /// Number of floats whose magnitude equals the largest number of their dtype.
    pub saturated: u64,
    /// Number of indices in the first dimension at which all elements are zero, if requested.
    pub zero_rows: Option<u64>,
    /// The histogram, if a histogram was requested and its bins can be distinguished.
    pub histogram: Option<Box<Histogram>>,
}

impl Numbers {
    /// Returns the number of infinities of either sign.
    #[must_use]
    pub fn infinities(&self) -> u64 {
        self.positive_infinities + self.negative_infinities
    }
}

/// Statistics of a sequence of numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct PartialStatistics {
    pub(super) moments: Moments,
    range: Option<(Number, Number)>,
    pub(super) zeros: u64,
    pub(super) nan: u64,
    pub(super) positive_infinities: u64,
    pub(super) negative_infinities: u64,
    pub(super) subnormals: u64,
    pub(super) saturated: u64,
}

impl PartialStatistics {
    /// Extends the range so that it includes `low` and `high`.
    pub(super) fn reach(&mut self, low: Number, high: Number) {
        self.range = Some(match self.range {
            None => (low, high),
            Some((least, greatest)) => (
                if low.is_less(least) { low } else { least },
                if greatest.is_less(high) { high } else { greatest },
            ),
        });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        if let Some((low, high)) = other.range {
            self.reach(low, high);
        }
        self.zeros += other.zeros;
        self.nan += other.nan;
        self.positive_infinities += other.positive_infinities;
        self.negative_infinities += other.negative_infinities;
        self.subnormals += other.subnormals;
        self.saturated += other.saturated;
    }

    pub(super) fn finish(self) -> Numbers {
        let is_any = self.moments.count() > 0;
        let outside = self.nan + self.positive_infinities + self.negative_infinities;
        Numbers {
            count: self.moments.count() + outside,
            finite: self.moments.count(),
            min: self.range.map(|(low, _)| low),
            max: self.range.map(|(_, high)| high),
            mean: is_any.then(|| self.moments.mean()),
            deviation: is_any.then(|| self.moments.deviation()),
            zeros: self.zeros,
            nan: self.nan,
            positive_infinities: self.positive_infinities,
            negative_infinities: self.negative_infinities,
            subnormals: self.subnormals,
            saturated: self.saturated,
            zero_rows: None,
            histogram: None,
        }
    }
}
