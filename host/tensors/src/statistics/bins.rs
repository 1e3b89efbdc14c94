//! The bins of a histogram: 64 equal bins from the minimum to the maximum. Numbers are counted as
//! in `numpy.histogram(x[isfinite(x)], bins=64)`, with the same edges, the same arithmetic, and the
//! same corrections for numbers on an edge. F32 numbers are compared with F32 edges, as in numpy.
//! All other floats are compared with F64 edges, whereas numpy computes the edges for F16 in F16.

use super::floats::BLOCK;
use super::histogram::{BINS, Histogram};
use super::kind::ElementLoop;
use super::partial::{Number, Numbers};
use super::{codes::CodeTable, complex};
use tensorferry_sdk::Dtype;

/// The edges of the bins, in the float precision in which numbers are counted.
#[derive(Debug, Clone)]
pub(super) enum Bins {
    Single { edges: Box<[f32; BINS + 1]>, extent: f32 },
    Double { edges: Box<[f64; BINS + 1]>, extent: f64 },
}

macro_rules! arithmetic {
    ($edges:ident, $bin:ident, $float:ty) => {
        /// Returns the edges, computed as in `numpy.linspace`, or `None` if the edges are not
        /// distinct.
        fn $edges(first: $float, last: $float, places: [$float; BINS + 1]) -> Option<[$float; BINS + 1]> {
            let bins = places[BINS];
            let (extent, step) = (last - first, (last - first) / bins);
            let edge =
                |place: $float| (if step == 0.0 { place / bins * extent } else { place * step }) + first;
            let mut edges = places.map(edge);
            edges[BINS] = last;
            edges.windows(2).all(|pair| pair[0] < pair[1]).then_some(edges)
        }

        /// Returns the index of the bin for a finite number between the first and the last edge.
        fn $bin(value: $float, edges: &[$float; BINS + 1], extent: $float, bins: $float) -> usize {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the bin is clamped to the range"
            )]
            let place = (((value - edges[0]) / extent) * bins) as usize;
            let mut bin = place.min(BINS - 1);
            if value < edges[bin] {
                bin = bin.saturating_sub(1);
            }
            if bin < BINS - 1 && value >= edges[bin + 1] {
                bin += 1;
            }
            bin
        }
    };
}

arithmetic!(edges_in_single, bin_in_single, f32);
arithmetic!(edges_in_double, bin_in_double, f64);

/// The indices of the edges (0, 1, 2, ...), as floats.
const EDGE_INDICES: [f64; BINS + 1] = {
    let mut places = [0.0; BINS + 1];
    let mut place = 1;
    while place <= BINS {
        places[place] = places[place - 1] + 1.0;
        place += 1;
    }
    places
};

impl Bins {
    /// Returns the bins for numbers in this range. If there are no numbers, the bins cover the
    /// range from 0 to 1. Returns `None` if 64 bins cannot be distinguished.
    pub(super) fn of(kind: ElementLoop, found: &Numbers) -> Option<Self> {
        let (min, max) = (found.min.unwrap_or(Number::Float(0.0)), found.max.unwrap_or(Number::Float(1.0)));
        if let ElementLoop::Singles(_, 4, _) = kind {
            #[expect(clippy::cast_possible_truncation, reason = "these were F32")]
            let (min, max) = (min.as_f64() as f32, max.as_f64() as f32);
            let (first, last) = if min == max { (min - 0.5, max + 0.5) } else { (min, max) };
            #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
            let places = EDGE_INDICES.map(|place| place as f32);
            let edges = Box::new(edges_in_single(first, last, places)?);
            return Some(Self::Single { edges, extent: last - first });
        }
        let (low, high) = (min.as_f64(), max.as_f64());
        let is_one = match (min, max) {
            (Number::Integer(min), Number::Integer(max)) => min == max,
            _ => low == high,
        };
        let (first, last) = if is_one { (low - 0.5, high + 0.5) } else { (low, high) };
        let extent = match (min, max) {
            // Integers are subtracted without rounding.
            (Number::Integer(min), Number::Integer(max)) if !is_one => (max - min) as f64,
            _ => last - first,
        };
        Some(Self::Double { edges: Box::new(edges_in_double(first, last, EDGE_INDICES)?), extent })
    }

    /// Adds contiguous elements to the counts of the bins.
    pub(super) fn count(&self, kind: ElementLoop, bytes: &[u8], counts: &mut [u64; BINS]) {
        match kind {
            ElementLoop::Singles(load, width, _) => {
                let mut values = [0_f32; BLOCK];
                for bytes in bytes.chunks(BLOCK * width) {
                    let values = &mut values[..bytes.len() / width];
                    load(bytes, values);
                    values.iter().for_each(|&value| self.add_single(value, counts));
                }
            }
            ElementLoop::Doubles => bytes
                .as_chunks::<8>()
                .0
                .iter()
                .for_each(|bytes| self.add(f64::from_le_bytes(*bytes), 1, counts)),
            ElementLoop::Integers(_, dtype) => self.add_integers(dtype, bytes, counts),
            ElementLoop::Complex(width, read, _) => {
                complex::magnitudes(bytes, width, read).for_each(|value| self.add(value, 1, counts));
            }
            ElementLoop::Codes(codes) => self.add_codes(codes, bytes, counts),
            ElementLoop::Texts => {}
        }
    }

    fn add_integers(&self, dtype: Dtype, bytes: &[u8], counts: &mut [u64; BINS]) {
        macro_rules! each {
            ($integer:ty) => {
                bytes.as_chunks().0.iter().for_each(|bytes| {
                    self.add(<$integer>::from_le_bytes(*bytes) as f64, 1, counts);
                })
            };
        }
        match dtype {
            Dtype::I16 => each!(i16),
            Dtype::U16 => each!(u16),
            Dtype::I32 => each!(i32),
            Dtype::U32 => each!(u32),
            Dtype::I64 => each!(i64),
            _ => each!(u64),
        }
    }

    fn add_codes(&self, codes: &CodeTable, bytes: &[u8], counts: &mut [u64; BINS]) {
        codes.each(bytes, |value, times| self.add(value, times, counts));
    }

    #[inline]
    fn add_single(&self, value: f32, counts: &mut [u64; BINS]) {
        match self {
            Self::Single { edges, extent } if value.is_finite() => {
                counts[bin_in_single(value, edges, *extent, 64.0)] += 1;
            }
            Self::Single { .. } => {}
            Self::Double { .. } => self.add(value.into(), 1, counts),
        }
    }

    #[inline]
    fn add(&self, value: f64, times: u64, counts: &mut [u64; BINS]) {
        if let Self::Double { edges, extent } = self
            && value.is_finite()
        {
            counts[bin_in_double(value, edges, *extent, 64.0)] += times;
        }
    }

    pub(super) fn finish(&self, counts: [u64; BINS]) -> Histogram {
        let edges = match self {
            Self::Single { edges, .. } => edges.map(f64::from),
            Self::Double { edges, .. } => **edges,
        };
        Histogram { edges, counts }
    }
}
