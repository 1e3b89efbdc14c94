//! Dictionaries for integer columns with a narrow range. A table maps each number to its index in
//! the dictionary. The writer computes the size of the dictionary before it writes the first page.
//!
//! All indices have the same number of bits, which is sufficient for the largest index. A page of
//! indices has this layout:
//!
//! ```text
//! u8       bits of an index
//! varint   groups of 8 indices << 1 | 1
//! ...      the indices, the lowest bit first
//! ```

use super::leaf::{Leaf, Values, extremes};
use super::levels::put_varint;
use std::ops::{BitOr, Range};

/// Maximum difference between the smallest and the largest value. This limit keeps the table small
/// enough for the CPU cache.
const MAX_RANGE: usize = 1 << 18;

pub(super) enum ChunkDictionary {
    /// The pages contain the values themselves, because a dictionary would save too little space.
    None,
    Int32(NumberDictionary<i32>),
    Int64(NumberDictionary<i64>),
}

/// The distinct values of a chunk.
pub(super) struct NumberDictionary<T> {
    min: T,
    /// Table of indices. The first entry is the index of the number `min`.
    indices: Vec<u32>,
    values: Vec<T>,
    bits: u32,
}

pub(super) trait Integer: Copy + Ord + BitOr<Output = Self> {
    const ZERO: Self;
    /// Returns the difference from `min`.
    fn distance(self, min: Self) -> usize;
    /// Returns `self + by`.
    fn add(self, by: usize) -> Self;
    /// Appends the number to a page in little-endian order.
    fn put(self, page: &mut Vec<u8>);
}

macro_rules! integer {
    ($type:ty) => {
        impl Integer for $type {
            const ZERO: Self = 0;

            #[inline]
            fn distance(self, min: Self) -> usize {
                usize::try_from(self.wrapping_sub(min).cast_unsigned()).unwrap_or(usize::MAX)
            }

            fn add(self, by: usize) -> Self {
                // `by` is less than the range of the numbers, so it fits.
                self.wrapping_add(Self::try_from(by).unwrap_or_default())
            }

            fn put(self, page: &mut Vec<u8>) {
                page.extend(self.to_le_bytes());
            }
        }
    };
}

integer!(i32);
integer!(i64);

impl ChunkDictionary {
    /// Builds the dictionary of a chunk's values. Returns `None` if the range of the values is too
    /// wide for a table. In that case, only a lookup of every value would show whether a dictionary
    /// saves enough space.
    pub(super) fn of(leaves: &[Leaf]) -> Option<Self> {
        macro_rules! dictionary {
            ($kind:ident) => {{
                let all = leaves.iter().map(|leaf| match &leaf.values {
                    Values::$kind(numbers) => Some(&numbers[..]),
                    _ => None,
                });
                match NumberDictionary::of(&all.collect::<Option<Vec<_>>>()?)? {
                    Some(dictionary) => Self::$kind(dictionary),
                    None => Self::None,
                }
            }};
        }
        Some(match &leaves.first()?.values {
            Values::Int32(_) => dictionary!(Int32),
            Values::Int64(_) => dictionary!(Int64),
            Values::Float(_) | Values::Double(_) | Values::Bytes(_) => Self::None,
        })
    }

    /// Returns the number of bits per index, or `None` if there is no dictionary.
    pub(super) fn bits(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Int32(dictionary) => Some(dictionary.bits),
            Self::Int64(dictionary) => Some(dictionary.bits),
        }
    }

    /// Returns the number of values in the dictionary, and the dictionary page.
    pub(super) fn page(&self) -> Option<(usize, Vec<u8>)> {
        match self {
            Self::None => None,
            Self::Int32(dictionary) => Some(dictionary.page()),
            Self::Int64(dictionary) => Some(dictionary.page()),
        }
    }

    /// Returns the minimum and the maximum, if this is a dictionary of 32-bit numbers.
    pub(super) fn int32(&self) -> Option<(i32, i32)> {
        if let Self::Int32(dictionary) = self { dictionary.extremes() } else { None }
    }

    pub(super) fn int64(&self) -> Option<(i64, i64)> {
        if let Self::Int64(dictionary) = self { dictionary.extremes() } else { None }
    }

    pub(super) fn put(&self, values: &Values, range: Range<usize>, indices: &mut Indices<'_>) {
        match (self, values) {
            (Self::Int32(dictionary), Values::Int32(numbers)) => dictionary.put(&numbers[range], indices),
            (Self::Int64(dictionary), Values::Int64(numbers)) => dictionary.put(&numbers[range], indices),
            // This case cannot occur, because the dictionary was built from these values.
            _ => {}
        }
    }
}

impl<T: Integer> NumberDictionary<T> {
    /// Builds the dictionary of the numbers. Returns `None` if the range of the numbers is too wide
    /// for a table, and `Some(None)` if a dictionary would save too little space.
    fn of(values: &[&[T]]) -> Option<Option<Self>> {
        let count: usize = values.iter().map(|values| values.len()).sum();
        if count == 0 {
            return None;
        }
        let max = MAX_RANGE.min(1024 + 16 * count);
        let (min, is_present) = match small_numbers(values, max) {
            Some(is_present) => (T::ZERO, is_present),
            None => {
                let (min, greatest) = extremes(values.iter().copied())?;
                let range = greatest.distance(min);
                if range >= max {
                    return None;
                }
                let mut is_present = vec![false; range + 1];
                values.iter().for_each(|values| mark_present(values, min, &mut is_present));
                (min, is_present)
            }
        };
        let mut found = Vec::new();
        let mut indices = Vec::with_capacity(is_present.len());
        for (place, is_present) in is_present.into_iter().enumerate() {
            // The index is less than the range of the numbers, which is at most 2^18.
            indices.push(u32::try_from(found.len()).unwrap_or(u32::MAX));
            if is_present {
                found.push(min.add(place));
            }
        }
        let bits = (u64::BITS - (found.len() as u64 - 1).leading_zeros()).max(1);
        let width = 8 * size_of::<T>();
        let with = found.len() * width + count * bits as usize;
        let is_worth_it = 2 * with <= count * width;
        Some(is_worth_it.then_some(Self { min, indices, values: found, bits }))
    }

    fn extremes(&self) -> Option<(T, T)> {
        Some((*self.values.first()?, *self.values.last()?))
    }

    fn page(&self) -> (usize, Vec<u8>) {
        let mut page = Vec::new();
        self.values.iter().for_each(|value| value.put(&mut page));
        (self.values.len(), page)
    }

    fn put(&self, values: &[T], indices: &mut Indices<'_>) {
        if let Some((first, last)) = self.extremes()
            && last.distance(first) + 1 == self.values.len()
        {
            // If every number in the range occurs, the index is computed directly. This computation
            // avoids the table, which may not fit into the L1 cache.
            indices.put_all(values, |value| value.distance(first) as u64);
            return;
        }
        indices.put_all(values, |value| u64::from(self.indices[value.distance(self.min)]));
    }
}

/// Marks the nonnegative numbers that occur. Returns `None` if a number is negative or not less
/// than `max`. Each run of values is read twice while it is in the cache. The first read combines
/// the bits of the values with vector instructions to get an upper bound.
fn small_numbers<T: Integer>(values: &[&[T]], max: usize) -> Option<Vec<bool>> {
    let mut is_present = vec![false];
    for run in values.iter().flat_map(|values| values.chunks(2048)) {
        let range = run.iter().fold(T::ZERO, |bits, &value| bits | value).distance(T::ZERO);
        if range >= max {
            return None;
        }
        if range >= is_present.len() {
            is_present.resize(range + 1, false);
        }
        mark_present(run, T::ZERO, &mut is_present);
    }
    Some(is_present)
}

/// Marks each number at its distance from `min`, which must be less than the length of
/// `is_present`.
fn mark_present<T: Integer>(values: &[T], min: T, is_present: &mut [bool]) {
    for value in values {
        is_present[value.distance(min)] = true;
    }
}

/// Writer for the packed indices of a page.
pub(super) struct Indices<'a> {
    page: &'a mut Vec<u8>,
    bits: u32,
    /// Length of the page after all indices have been written.
    end: usize,
    waiting: u64,
    filled: u32,
}

impl<'a> Indices<'a> {
    /// Reserves space for `count` indices at the end of a page.
    pub(super) fn new(page: &'a mut Vec<u8>, bits: u32, count: usize) -> Self {
        let groups = count.div_ceil(8);
        page.push(bits.to_le_bytes()[0]);
        put_varint(page, (groups as u64) << 1 | 1);
        let end = page.len() + groups * bits as usize;
        page.reserve(groups * bits as usize + 8);
        Self { page, bits, end, waiting: 0, filled: 0 }
    }

    /// Packs the indices of values. If an index has at most 16 bits, four indices are first
    /// combined into one number, which shortens the dependency chain.
    #[inline]
    fn put_all<T: Copy>(&mut self, values: &[T], index: impl Fn(T) -> u64) {
        let (fours, rest) = if self.bits <= 16 { values.as_chunks::<4>() } else { (&[][..], values) };
        // Multiplying by a power of two is faster than shifting by a variable amount.
        let places = [0, 1, 2, 3].map(|place| 1_u64 << (place * self.bits % u64::BITS));
        for four in fours {
            let indices: [u64; 4] = std::array::from_fn(|place| index(four[place]) * places[place]);
            let [first, second, third, fourth] = indices;
            self.put(first | second | (third | fourth), 4 * self.bits);
        }
        rest.iter().for_each(|&value| self.put(index(value), self.bits));
    }

    /// Appends the lowest `count` bits of `bits`. `count` is at most 64, and the higher bits must
    /// be zero.
    #[inline]
    fn put(&mut self, bits: u64, count: u32) {
        // `filled` is less than 64 at this point.
        self.waiting |= bits << self.filled;
        self.filled += count;
        if self.filled >= u64::BITS {
            self.page.extend_from_slice(&self.waiting.to_le_bytes());
            self.filled -= u64::BITS;
            self.waiting = bits.checked_shr(count - self.filled).unwrap_or(0);
        }
    }

    /// Appends the remaining bits and pads the last group with zeros.
    pub(super) fn finish(self) {
        self.page.extend_from_slice(&self.waiting.to_le_bytes());
        self.page.resize(self.end, 0);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn indices_are_the_places_of_ascending_values() {
        let dense: Vec<i64> = (0..9000).map(|n| 3 + n * 7 % 40).collect();
        let holes: Vec<i64> = dense.iter().map(|n| n * n).collect();
        let far: Vec<i64> = holes.iter().map(|n| n - 1_000_000).collect();
        // The first numbers are small, and the later ones are large.
        let late: Vec<i64> =
            holes.iter().enumerate().map(|(place, n)| if place < 5000 { 1 } else { *n }).collect();
        for numbers in [dense, holes, far, late] {
            let (first, rest) = numbers.split_at(4000);
            let dictionary = NumberDictionary::of(&[first, &[], rest]).unwrap().unwrap();
            let mut values = numbers.clone();
            values.sort_unstable();
            values.dedup();
            assert_eq!(dictionary.values, values);
            let mut page = Vec::new();
            let mut indices = Indices::new(&mut page, dictionary.bits, numbers.len());
            dictionary.put(&numbers, &mut indices);
            indices.finish();
            let groups = numbers.len().div_ceil(8) * dictionary.bits as usize;
            let packed = &page[page.len() - groups..];
            let bit = |at: usize| usize::from(packed[at / 8] >> (at % 8) & 1);
            for (place, number) in numbers.iter().enumerate() {
                let bits = dictionary.bits as usize;
                let index: usize = (0..bits).map(|low| bit(place * bits + low) << low).sum();
                assert_eq!(values[index], *number);
            }
        }
        assert!(NumberDictionary::<i64>::of(&[]).is_none());
        assert!(NumberDictionary::of(&[&[0, i64::MAX][..]]).is_none());
    }
}
