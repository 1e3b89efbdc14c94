//! The statistics of a chunk: its extremes. Floats have IEEE 754's total order there, as the schema's column
//! orders say, and those that are no numbers are only counted.

use super::leaf::{Leaf, Values};
use crate::write::encode::STATISTICS_BYTES;
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};

/// The statistics of the values of a chunk, which is not empty.
pub(super) fn of(leaves: &[Leaf]) -> Option<Statistics> {
    macro_rules! all {
        ($kind:ident) => {
            leaves.iter().filter_map(|leaf| match &leaf.values {
                Values::$kind(values) => Some(values),
                _ => None,
            })
        };
    }
    macro_rules! whole {
        ($kind:ident) => {{
            let (min, max) = extremes(all!($kind).map(|numbers| &numbers[..]), |number| number)?;
            let statistics = ValueStatistics::new(Some(min), Some(max), None, Some(0), false);
            statistics.with_backwards_compatible_min_max(true).into()
        }};
    }
    macro_rules! float {
        ($kind:ident, $float:ty, $key:ty) => {{
            // As `total_cmp` does it: by the bits, those of negative numbers but the sign turned round.
            let key = |bits: $key| bits ^ ((bits >> (<$key>::BITS - 1)).cast_unsigned() >> 1).cast_signed();
            let slices = || all!($kind).map(|numbers| &numbers[..]);
            let nan: usize = slices().map(|numbers| numbers.iter().filter(|n| n.is_nan()).count()).sum();
            let range = if nan == 0 {
                extremes(slices(), |number: $float| key(number.to_bits().cast_signed()))
            } else {
                let numbers: Vec<$float> =
                    slices().flatten().copied().filter(|number| !number.is_nan()).collect();
                extremes(std::iter::once(&numbers[..]), |number| key(number.to_bits().cast_signed()))
            };
            let number = |found: $key| <$float>::from_bits(key(found).cast_unsigned());
            let (min, max) = range.map(|(min, max)| (number(min), number(max))).unzip();
            ValueStatistics::new(min, max, None, Some(0), false).with_nan_count(Some(nan as u64)).into()
        }};
    }
    Some(match leaves.first()?.values {
        Values::Int32(_) => whole!(Int32),
        Values::Int64(_) => whole!(Int64),
        Values::Float(_) => float!(Float, f32, i32),
        Values::Double(_) => float!(Double, f64, i64),
        Values::Bytes(_) => {
            let values = || all!(Bytes).flat_map(|array| array.iter().flatten());
            bytes(values().min()?, values().max()?).into()
        }
    })
}

/// The least and the greatest key of some values.
pub(super) fn extremes<'a, T: Copy + 'a, K: Copy + Ord>(
    values: impl IntoIterator<Item = &'a [T]>,
    key: impl Fn(T) -> K,
) -> Option<(K, K)> {
    let mut values = values.into_iter().filter(|values| !values.is_empty()).peekable();
    let first = key(values.peek()?[0]);
    // Eight at a time, so that no comparison waits for the one before.
    let (mut least, mut greatest) = ([first; 8], [first; 8]);
    for values in values {
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            for lane in 0..8 {
                let key = key(eight[lane]);
                least[lane] = least[lane].min(key);
                greatest[lane] = greatest[lane].max(key);
            }
        }
        for &value in rest {
            least[0] = least[0].min(key(value));
            greatest[0] = greatest[0].max(key(value));
        }
    }
    Some((least.into_iter().min()?, greatest.into_iter().max()?))
}

/// Bounds of strings of bytes, which are cut where they are long: the upper one is then the least that
/// comes after all that begin so.
fn bytes(min: &[u8], max: &[u8]) -> ValueStatistics<ByteArray> {
    let lower = &min[..min.len().min(STATISTICS_BYTES)];
    let mut upper = max[..max.len().min(STATISTICS_BYTES)].to_vec();
    if upper.len() < max.len() {
        while upper.pop_if(|byte| *byte == 0xff).is_some() {}
        match upper.last_mut() {
            Some(byte) => *byte += 1,
            // Nothing short comes after it.
            None => upper = max.to_vec(),
        }
    }
    let (is_min, is_max) = (lower.len() == min.len(), upper == max);
    ValueStatistics::new(Some(lower.to_vec().into()), Some(upper.into()), None, Some(0), false)
        .with_min_is_exact(is_min)
        .with_max_is_exact(is_max)
}
