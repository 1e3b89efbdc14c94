//! Statistics of tensors: the range of the numbers, and how many are special, found in one pass
//! over the bytes; a histogram takes a second pass.
//!
//! | File | Contents |
//! |---|---|
//! | `kind.rs` | how a dtype's numbers are read, or why it has none |
//! | `partial.rs`, `moments.rs` | the statistics of a stretch of numbers; joining two stretches |
//! | `floats.rs`, `integers.rs`, `codes.rs`, `complex.rs` | the loops over F16 to F64, wide integers, up to 8 bits, complex numbers |
//! | `texts.rs` | the lengths of strings |
//! | `histogram.rs`, `bins.rs` | 64 bins, counted as in `numpy.histogram` |
//! | `windows.rs` | all tensors of a catalog, window by window on all threads |
//!
//! Minimum, maximum, mean and deviation are those of the finite numbers; for complex numbers, of
//! the magnitudes. Integers are exact. The deviation is that of the population, as in `numpy.std`.
//! Sums are of differences from a number of their block, in F64, and blocks are joined as by Chan,
//! Golub and LeVeque. A mean that is large compared with the deviation therefore costs no digits.

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
