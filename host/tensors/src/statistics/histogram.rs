//! A histogram: how many numbers lie in each of 64 equal bins.

/// How many bins a histogram has.
pub const BINS: usize = 64;

/// How many numbers lie in each bin; one on the edge of two lies in the upper, and the last has both its edges.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Where bins begin, and where the last one ends.
    pub edges: [f64; BINS + 1],
    /// The numbers in each.
    pub counts: [u64; BINS],
}
