//! Loops over numbers of one dtype that lie side by side, little-endian.

use super::CastLosses;

/// Reads as many values as there is room for.
pub type Load<V> = fn(&[u8], &mut [V]);

/// Writes values, and counts what they lose.
pub type Store<V> = fn(&[V], &mut [u8], &mut CastLosses);

/// A [`Load`] that makes a value of each number.
macro_rules! load {
    ($type:ty, $convert:expr) => {
        |bytes, values| {
            for (bytes, value) in bytes.as_chunks().0.iter().zip(values) {
                *value = $convert(<$type>::from_le_bytes(*bytes));
            }
        }
    };
}

/// A [`Store`] that makes a number of each value, and counts what that loses.
macro_rules! store {
    (|$value:ident, $lost:ident| $number:expr) => {
        |values, bytes, $lost| {
            for (&$value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
                *bytes = { $number }.to_le_bytes();
            }
        }
    };
}

pub(super) use {load, store};
