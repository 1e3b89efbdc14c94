//! How many values a cast has changed, and in which way: each is counted once.

use std::ops::AddAssign;

/// How many values a cast has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CastLosses {
    /// Numbers that became infinite.
    pub infinite: u64,
    /// Numbers that became NaN, in a dtype that has no infinity.
    pub nan: u64,
    /// Numbers beyond the least or the greatest of a dtype that has neither infinity nor, for integers, NaN.
    pub range: u64,
    /// Numbers that became zero.
    pub zero: u64,
    /// All others that are not what they were.
    pub rounded: u64,
}

impl CastLosses {
    /// How many, in all.
    #[must_use]
    pub fn values(&self) -> u64 {
        self.infinite + self.nan + self.range + self.zero + self.rounded
    }

    /// Whether a number had no place in the dtype.
    #[must_use]
    pub(crate) fn is_out_of_range(&self) -> bool {
        self.infinite + self.nan + self.range > 0
    }

    /// What a loss says of them.
    #[must_use]
    pub fn describe(&self) -> String {
        let kinds = [
            (self.infinite, "overflowed to infinity"),
            (self.nan, "overflowed to NaN"),
            (self.range, "were out of range"),
            (self.zero, "underflowed to zero"),
            (self.rounded, "were rounded"),
        ];
        let said = kinds.iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    }
}

impl AddAssign for CastLosses {
    fn add_assign(&mut self, other: Self) {
        self.infinite += other.infinite;
        self.nan += other.nan;
        self.range += other.range;
        self.zero += other.zero;
        self.rounded += other.rounded;
    }
}
