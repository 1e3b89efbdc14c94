//! What a stretch of numbers comes to, whatever their dtype; and what a whole tensor's do.

use super::histogram::Histogram;
use super::moments::Moments;

/// A number, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Of an integer's dtype, or BOOL.
    Integer(i128),
    /// Of a float's.
    Float(f64),
}

impl Number {
    /// The number as F64, to the nearest.
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

/// What the numbers of a tensor come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    /// Elements.
    pub count: u64,
    /// Those that are numbers, and not infinite: what the next four are of.
    pub finite: u64,
    /// The least.
    pub min: Option<Number>,
    /// The greatest.
    pub max: Option<Number>,
    /// The mean.
    pub mean: Option<f64>,
    /// The standard deviation of the population; infinite, where its square is beyond F64.
    pub deviation: Option<f64>,
    /// Zeros of either sign.
    pub zeros: u64,
    /// What is not a number.
    pub nan: u64,
    /// Infinities above.
    pub positive_infinities: u64,
    /// Infinities below.
    pub negative_infinities: u64,
    /// Floats with less than all their digits: smaller than the least normal number of their dtype, and not zero.
    pub subnormals: u64,
    /// Floats that are the largest number of their dtype, of either sign.
    pub saturated: u64,
    /// Places of the first dimension that hold zeros alone, where that was looked for.
    pub zero_rows: Option<u64>,
    /// The bins, if they were asked for and can be told apart.
    pub histogram: Option<Box<Histogram>>,
}

impl Numbers {
    /// Infinities of either sign.
    #[must_use]
    pub fn infinities(&self) -> u64 {
        self.positive_infinities + self.negative_infinities
    }
}

/// What a stretch of numbers comes to.
#[derive(Debug, Clone, Default)]
pub(super) struct Partial {
    pub(super) moments: Moments,
    range: Option<(Number, Number)>,
    pub(super) zeros: u64,
    pub(super) nan: u64,
    pub(super) positive_infinities: u64,
    pub(super) negative_infinities: u64,
    pub(super) subnormals: u64,
    pub(super) saturated: u64,
}

impl Partial {
    /// Widens the range.
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
