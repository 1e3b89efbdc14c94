//! Loops over contiguous little-endian numbers of one dtype.

use super::CastLosses;

/// A loop that reads values until the output is full.
pub type Load<V> = fn(&[u8], &mut [V]);

/// A loop that writes values, and counts the values that change.
pub type Store<V> = fn(&[V], &mut [u8], &mut CastLosses);

/// Defines a [`Load`] that converts each number to a value.
macro_rules! load {
    ($type:ty, $convert:expr) => {
        |bytes, values| {
            for (bytes, value) in bytes.as_chunks().0.iter().zip(values) {
                *value = $convert(<$type>::from_le_bytes(*bytes));
            }
        }
    };
}

/// Defines a [`Store`] that converts each value to a number, and counts the values that change.
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
