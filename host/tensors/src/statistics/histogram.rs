//! A histogram: how many numbers are in each of 64 equal bins.

/// Number of bins in a histogram.
pub const BINS: usize = 64;

/// How many numbers are in each bin. A number on the edge of two bins counts in the upper one; the
/// last bin includes both its edges.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The starts of the bins, and the end of the last one.
    pub edges: [f64; BINS + 1],
    /// Numbers per bin.
    pub counts: [u64; BINS],
}
