//! A histogram: how many numbers are in each of 64 equal bins.

/// Number of bins in a histogram.
pub const BINS: usize = 64;

/// The number of values in each bin. A value on the edge between two bins counts in the upper bin.
/// The last bin includes both of its edges.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The starts of the bins, and the end of the last one.
    pub edges: [f64; BINS + 1],
    /// Numbers per bin.
    pub counts: [u64; BINS],
}
