//! Counts of the values that a cast has changed, by kind of change. Each value is counted once.

use std::ops::AddAssign;

/// Counts of the values that a cast has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CastLosses {
    pub infinite: u64,
    /// Numbers that became NaN because they were too large for a dtype without infinity.
    pub nan: u64,
    /// Numbers that were out of range for a dtype without infinity. In casts to integers, NaN also
    /// counts.
    pub range: u64,
    pub zero: u64,
    /// All other numbers that changed.
    pub rounded: u64,
}

impl CastLosses {
    /// Returns the total number of values that changed.
    #[must_use]
    pub fn values(&self) -> u64 {
        self.infinite + self.nan + self.range + self.zero + self.rounded
    }

    /// Returns whether any number was out of range.
    #[must_use]
    pub(crate) fn is_out_of_range(&self) -> bool {
        self.infinite + self.nan + self.range > 0
    }

    /// Returns the description of the counts for a loss.
    #[must_use]
    pub fn describe(&self) -> String {
        let kinds = [
            (self.infinite, "overflowed to infinity"),
            (self.nan, "overflowed to NaN"),
            (self.range, "were out of range"),
            (self.zero, "underflowed to zero"),
            (self.rounded, "were rounded"),
        ];
        let declared = kinds.iter().filter(|(count, _)| *count > 0);
        declared.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
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
