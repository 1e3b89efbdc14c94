//! Loops that compute the statistics of integers of 16, 32 and 64 bits.

use super::floats::BLOCK;
use super::moments::Moments;
use super::partial::{Number, PartialStatistics};

/// Number of parallel lanes in a loop.
const LANES: usize = 16;

macro_rules! block {
    ($($name:ident, $integer:ty, $width:literal, |$value:ident, $first:ident, $is_near:ident| $apart:expr, $base:expr;)*) => { $(
        /// Adds contiguous little-endian integers to the statistics.
        pub(super) fn $name(bytes: &[u8], into: &mut PartialStatistics) {
            for bytes in bytes.as_chunks::<$width>().0.chunks(BLOCK) {
                let mut values = [0 as $integer; BLOCK];
                let values = &mut values[..bytes.len()];
                for (value, bytes) in values.iter_mut().zip(bytes) {
                    *value = <$integer>::from_le_bytes(*bytes);
                }
                let all = values[0];
                let (mut low, mut high, mut zeros) = ([all; LANES], [all; LANES], [0_u32; LANES]);
                let mut see = |lane: usize, value: $integer| {
                    low[lane] = low[lane].min(value);
                    high[lane] = high[lane].max(value);
                    zeros[lane] += u32::from(value == 0);
                };
                let (groups, rest) = values.as_chunks::<LANES>();
                for group in groups {
                    (0..LANES).for_each(|lane| see(lane, group[lane]));
                }
                rest.iter().enumerate().for_each(|(lane, &value)| see(lane, value));
                let low = low.into_iter().fold(all, |a, b| a.min(b));
                let high = high.into_iter().fold(all, |a, b| a.max(b));

                // The first integer, rounded to a number that F64 can represent.
                let $first = $base(values[0]);
                let $is_near = i64::try_from(i128::from(high) - i128::from(low)).is_ok_and(|apart| apart < i64::MAX / 2);
                let (mut sums, mut squares) = ([0_f64; LANES], [0_f64; LANES]);
                let mut add = |lane: usize, $value: $integer| {
                    let apart: f64 = $apart;
                    sums[lane] += apart;
                    squares[lane] += apart * apart;
                };
                for group in groups {
                    (0..LANES).for_each(|lane| add(lane, group[lane]));
                }
                rest.iter().enumerate().for_each(|(lane, &value)| add(lane, value));
                let (sum, squares) = (sums.iter().sum(), squares.iter().sum());
                into.moments.merge(&Moments::of_differences(values.len() as u64, $first as f64, sum, squares));
                into.reach(Number::Integer(low.into()), Number::Integer(high.into()));
                into.zeros += u64::from(zeros.iter().sum::<u32>());
            }
        }
    )* };
}

/// Number of low bits of a large 64-bit integer that F64 cannot represent.
const LOW: u32 = 11;

block! {
    of_i16, i16, 2, |value, first, _is_near| f64::from(value) - f64::from(first), |value| value;
    of_u16, u16, 2, |value, first, _is_near| f64::from(value) - f64::from(first), |value| value;
    of_i32, i32, 4, |value, first, _is_near| f64::from(value) - f64::from(first), |value| value;
    of_u32, u32, 4, |value, first, _is_near| f64::from(value) - f64::from(first), |value| value;
    of_i64, i64, 8, |value, first, is_near|
        if is_near { value.wrapping_sub(first) as f64 } else { value as f64 - first as f64 },
        |value: i64| value >> LOW << LOW;
    of_u64, u64, 8, |value, first, is_near|
        if is_near { value.wrapping_sub(first).cast_signed() as f64 } else { value as f64 - first as f64 },
        |value: u64| value >> LOW << LOW;
}
