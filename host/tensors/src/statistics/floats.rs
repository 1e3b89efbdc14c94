//! Loops that compute the statistics of floats of 16, 32 and 64 bits.
//!
//! A block fits in the L1 cache and is traversed twice: first for the range and the small numbers,
//! and then for the sums. The sums show whether all numbers are finite. Only blocks that contain
//! infinities, NaN or a very wide range are processed number by number. Each loop keeps several
//! independent accumulators, so that the compiler can vectorize the loop.

use super::moments::Moments;
use super::partial::{Number, PartialStatistics};

/// Number of floats in a block.
pub(super) const BLOCK: usize = 1024;

/// The limits beyond which the numbers of a float dtype are special.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FloatFacts {
    /// The smallest normal number.
    pub(super) least_normal: f64,
    /// The largest number.
    pub(super) largest: f64,
}

/// Number of parallel lanes in a loop.
const LANES: usize = 16;

macro_rules! block {
    ($(#[$doc:meta])* $name:ident, $float:ty, $narrow:expr) => {
        $(#[$doc])*
        pub(super) fn $name(values: &[$float], facts: FloatFacts, into: &mut PartialStatistics) {
            let Some(&first) = values.first() else { return };
            let (least_normal, largest) = ($narrow(facts.least_normal), $narrow(facts.largest));
            let (mut low, mut high) = ([first; LANES], [first; LANES]);
            let (mut zeros, mut small) = ([0_u32; LANES], [0_u32; LANES]);
            let mut see = |lane: usize, value: $float| {
                low[lane] = if value < low[lane] { value } else { low[lane] };
                high[lane] = if value > high[lane] { value } else { high[lane] };
                zeros[lane] += u32::from(value == 0.0);
                small[lane] += u32::from(value.abs() < least_normal);
            };
            let (groups, rest) = values.as_chunks::<LANES>();
            for group in groups {
                (0..LANES).for_each(|lane| see(lane, group[lane]));
            }
            rest.iter().enumerate().for_each(|(lane, &value)| see(lane, value));

            let base = f64::from(first);
            let (mut sums, mut squares) = ([0_f64; LANES], [0_f64; LANES]);
            let mut add = |lane: usize, value: $float| {
                let apart = f64::from(value) - base;
                sums[lane] += apart;
                squares[lane] += apart * apart;
            };
            for group in groups {
                (0..LANES).for_each(|lane| add(lane, group[lane]));
            }
            rest.iter().enumerate().for_each(|(lane, &value)| add(lane, value));
            let (sum, square) = (sums.iter().sum::<f64>(), squares.iter().sum::<f64>());
            // The sum or the sum of squares is not finite if the block contains an infinity or NaN,
            // or if its numbers have a very wide range.
            if !(sum.is_finite() && square.is_finite()) {
                return by_number(values.iter().map(|&value| f64::from(value)), facts, into);
            }
            let low = low.into_iter().fold(first, |a, b| if b < a { b } else { a });
            let high = high.into_iter().fold(first, |a, b| if b > a { b } else { a });
            let zeros = u64::from(zeros.iter().sum::<u32>());
            into.moments.merge(&Moments::of_differences(values.len() as u64, base, sum, square));
            into.reach(Number::Float(low.into()), Number::Float(high.into()));
            into.zeros += zeros;
            into.subnormals += u64::from(small.iter().sum::<u32>()) - zeros;
            if high >= largest || low <= -largest {
                into.saturated += values.iter().filter(|value| value.abs() >= largest).count() as u64;
            }
        }
    };
}

#[expect(clippy::cast_possible_truncation, reason = "F32 represents both numbers exactly")]
fn single(number: f64) -> f32 {
    number as f32
}

block!(
    /// Adds at most [`BLOCK`] numbers that F32 can represent.
    singles, f32, single
);
block!(
    /// Adds at most [`BLOCK`] numbers of F64.
    doubles, f64, |number: f64| number
);

/// Adds at most [`BLOCK`] numbers one by one. This function is used if some numbers are not finite,
/// or if their range is too wide for sums.
pub(super) fn by_number(values: impl Iterator<Item = f64>, facts: FloatFacts, into: &mut PartialStatistics) {
    let (mut finite, mut count) = ([0_f64; BLOCK], 0);
    for value in values {
        if value.is_finite() {
            finite[count] = value;
            count += 1;
            into.zeros += u64::from(value == 0.0);
            into.subnormals += u64::from(value != 0.0 && value.abs() < facts.least_normal);
            into.saturated += u64::from(value.abs() >= facts.largest);
            into.reach(Number::Float(value), Number::Float(value));
        } else {
            into.nan += u64::from(value.is_nan());
            into.positive_infinities += u64::from(value == f64::INFINITY);
            into.negative_infinities += u64::from(value == f64::NEG_INFINITY);
        }
    }
    let finite = &finite[..count];
    let Some(&base) = finite.first() else { return };
    let apart = || finite.iter().map(|value| value - base);
    let (sum, squares) = (apart().sum::<f64>(), apart().map(|apart| apart * apart).sum::<f64>());
    into.moments.merge(&if sum.is_finite() && squares.is_finite() {
        Moments::of_differences(count as u64, base, sum, squares)
    } else {
        Moments::of_wide(finite)
    });
}
