//! A histogram: the number of values in each of 64 equal bins.

/// Number of bins in a histogram.
pub const BINS: usize = 64;

/// The number of values in each bin. A value on the edge between two bins counts in the upper bin.
/// The last bin includes both of its edges.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The starts of the bins, and the end of the last bin.
    pub edges: [f64; BINS + 1],
    /// Number of values in each bin.
    pub counts: [u64; BINS],
}
