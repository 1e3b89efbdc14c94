//! Statistics: what the numbers of a tensor range over and how many of them are special, found in one pass over its
//! bytes; a histogram, in a second one.
//!
//! | File | What it yields |
//! |---|---|
//! | `kind.rs` | how a dtype's numbers are read, or why it has none |
//! | `partial.rs`, `moments.rs` | what a stretch of numbers comes to; two stretches joined |
//! | `floats.rs`, `integers.rs`, `codes.rs`, `complex.rs` | the loops over F16 to F64, wide integers, up to 8 bits, complex numbers |
//! | `texts.rs` | the lengths of strings |
//! | `histogram.rs`, `bins.rs` | 64 bins, as `numpy.histogram` counts them |
//! | `windows.rs` | all tensors of a catalog, window by window on all threads |
//!
//! The least, the greatest, the mean and the deviation are of the finite numbers, and those of complex numbers of their
//! magnitudes. Integers are exact. The deviation is the population's, as `numpy.std` has it. Sums are of differences
//! from a number of their block, in F64, and blocks are joined as Chan, Golub and LeVeque do, so that a mean that is
//! large beside the deviation costs no digits.

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
pub use kind::Kind;
pub use moments::Moments;
pub use partial::{Number, Numbers};
pub use texts::Texts;
pub use windows::{rows_of_zeros, statistics};

/// What a tensor's elements come to.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistics {
    /// Of numbers.
    Numbers(Numbers),
    /// Of strings.
    Texts(Texts),
}

impl Statistics {
    /// Of numbers.
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
