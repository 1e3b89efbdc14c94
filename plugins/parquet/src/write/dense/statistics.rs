//! Minimum and maximum of a chunk. Floats are compared in the total order of IEEE 754, which the
//! column orders in the schema require. NaNs are only counted.

use super::STATISTICS_BYTES;
use super::dictionary::ChunkDictionary;
use super::leaf::{Leaf, Values, extremes};
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};
use tensorferry_sdk::arrow_array::Array;

/// Computes the statistics of a chunk. The chunk must contain values.
pub(super) fn of(leaves: &[Leaf], dictionary: &ChunkDictionary) -> Option<Statistics> {
    macro_rules! all {
        ($kind:ident) => {
            leaves.iter().filter_map(|leaf| match &leaf.values {
                Values::$kind(values) => Some(values),
                _ => None,
            })
        };
    }
    macro_rules! whole {
        ($kind:ident, $found:expr) => {{
            let (min, max) = match $found {
                Some(found) => found,
                None => extremes(all!($kind).map(|numbers| &numbers[..]))?,
            };
            let statistics = ValueStatistics::new(Some(min), Some(max), None, Some(0), false);
            statistics.with_backwards_compatible_min_max(true).into()
        }};
    }
    macro_rules! float {
        ($kind:ident, $float:ty) => {{
            let slices = || all!($kind).map(|numbers| &numbers[..]);
            let (mut min, mut max) = ([<$float>::INFINITY; 8], [<$float>::NEG_INFINITY; 8]);
            let (mut count, mut nan) = (0, 0);
            // Each run is read twice, so runs are short enough for the L1 cache.
            for numbers in slices().flat_map(|numbers| numbers.chunks(4096)) {
                // A comparison with NaN is false, so NaN never becomes the minimum or maximum.
                let mut see = |lane: usize, number: $float| {
                    min[lane] = if number < min[lane] { number } else { min[lane] };
                    max[lane] = if number > max[lane] { number } else { max[lane] };
                };
                let (eights, rest) = numbers.as_chunks::<8>();
                for eight in eights {
                    (0..8).for_each(|lane| see(lane, eight[lane]));
                }
                rest.iter().for_each(|&number| see(0, number));
                count += numbers.len();
                nan += numbers.iter().filter(|number| number.is_nan()).count();
            }
            // The two zeros compare as equal, but -0.0 comes first in the total order.
            let has = |zero: $float| slices().flatten().any(|number| number.to_bits() == zero.to_bits());
            let zero = |found: $float, first: $float| if has(first) { first } else { found };
            let min = min.into_iter().fold(<$float>::INFINITY, <$float>::min);
            let max = max.into_iter().fold(<$float>::NEG_INFINITY, <$float>::max);
            let min = if min == 0.0 { zero(0.0, -0.0) } else { min };
            let max = if max == 0.0 { zero(-0.0, 0.0) } else { max };
            let (min, max) = (nan < count).then_some((min, max)).unzip();
            ValueStatistics::new(min, max, None, Some(0), false).with_nan_count(Some(nan as u64)).into()
        }};
    }
    Some(match leaves.first()?.values {
        Values::Int32(_) => whole!(Int32, dictionary.int32()),
        Values::Int64(_) => whole!(Int64, dictionary.int64()),
        Values::Float(_) => float!(Float, f32),
        Values::Double(_) => float!(Double, f64),
        Values::Bytes(_) => {
            let mut values = all!(Bytes).flat_map(|array| (0..array.len()).map(|place| array.value(place)));
            let first = values.next().map(|value| (beginning(value), value))?;
            let (mut min, mut max) = (first, first);
            for value in values {
                let value = (beginning(value), value);
                min = min.min(value);
                max = max.max(value);
            }
            bytes(min.1, max.1).into()
        }
    })
}

/// Returns the first eight bytes of a value as a number that has the same order. Most values differ
/// in these bytes, so most comparisons do not need the remaining bytes.
fn beginning(value: &[u8]) -> u64 {
    let whole = value.first_chunk().copied();
    u64::from_be_bytes(whole.unwrap_or_else(|| {
        let mut short = [0; 8];
        short[..value.len()].copy_from_slice(value);
        short
    }))
}

/// Returns the minimum and maximum of byte strings, truncated if they are long. A truncated maximum
/// is the smallest string that is greater than every string with the same prefix.
fn bytes(min: &[u8], max: &[u8]) -> ValueStatistics<ByteArray> {
    let lower = &min[..min.len().min(STATISTICS_BYTES)];
    let mut upper = max[..max.len().min(STATISTICS_BYTES)].to_vec();
    if upper.len() < max.len() {
        while upper.pop_if(|byte| *byte == 0xff).is_some() {}
        match upper.last_mut() {
            Some(byte) => *byte += 1,
            // All bytes of the prefix are 0xff, so no shorter string is greater than `max`.
            None => upper = max.to_vec(),
        }
    }
    let (is_min, is_max) = (lower.len() == min.len(), upper == max);
    ValueStatistics::new(Some(lower.to_vec().into()), Some(upper.into()), None, Some(0), false)
        .with_min_is_exact(is_min)
        .with_max_is_exact(is_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_have_the_order_of_their_values() {
        let values: [&[u8]; 9] =
            [b"", b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaa\0", b"aaaaaaab"];
        for (place, value) in values.iter().enumerate() {
            for other in &values[place + 1..] {
                assert!((beginning(value), value) < (beginning(other), other));
            }
        }
    }
}
