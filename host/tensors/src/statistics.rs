//! Statistics of tensors, such as the range of the numbers and the counts of special numbers. One
//! pass over the bytes computes the statistics. A histogram needs a second pass.
//!
//! | File | Contents |
//! |---|---|
//! | `kind.rs` | the loop for a dtype's numbers, or the reason why there are no statistics |
//! | `partial.rs`, `moments.rs` | statistics of a sequence of numbers, and their combination for two sequences |
//! | `floats.rs`, `integers.rs`, `codes.rs`, `complex.rs` | the loops over F16 to F64, wide integers, dtypes of up to 8 bits, and complex numbers |
//! | `texts.rs` | the lengths of strings |
//! | `histogram.rs`, `bins.rs` | 64 bins, counted as in `numpy.histogram` |
//! | `windows.rs` | all tensors of a catalog, window by window on all threads |
//!
//! The minimum, maximum, mean and deviation are computed from the finite numbers, or from their
//! magnitudes if the numbers are complex. The minimum and maximum of integers are exact. The
//! deviation is the population standard deviation, as in `numpy.std`. For each block, ferry sums
//! the differences from one of the block's numbers in F64, and then joins the blocks by the method
//! of Chan, Golub and LeVeque. As a result, precision is not lost if the mean is large compared
//! with the deviation.

mod bins;
mod codes;
mod complex;
mod floats;
mod histogram;
mod integers;
mod kind;
mod moments;
mod partial;
mod texts;
mod windows;

pub use histogram::{BINS, Histogram};
pub use kind::StatisticsKind;
pub use moments::Moments;
pub use partial::{Number, Numbers};
pub use texts::Texts;
pub use windows::{rows_of_zeros, statistics};

#[derive(Debug, Clone, PartialEq)]
pub enum Statistics {
    Numbers(Numbers),
    Texts(Texts),
}

impl Statistics {
    #[must_use]
    pub fn numbers(&self) -> Option<&Numbers> {
        match self {
            Self::Numbers(numbers) => Some(numbers),
            Self::Texts(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
