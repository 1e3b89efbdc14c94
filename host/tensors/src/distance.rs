//! The distance between the numbers of two tensors: the largest absolute and relative differences
//! and their positions, the number of elements that differ, and the angle between the tensors.
//! Numbers are compared as F64. 64-bit integers, which F64 cannot always represent, are subtracted
//! as integers.
//!
//! - *Relative*: the difference divided by the larger magnitude. The result is at most 2 for finite
//!   numbers, and does not change if A and B are exchanged.
//! - *NaN* is equal to NaN. Elements that are NaN on only one side are counted separately and do
//!   not contribute to the distance.
//! - *The cosine* is computed from the elements that are finite on both sides. Each side is treated
//!   as one vector.

use super::elements::{Elements, bits, decode, unpacked};
use crate::cast::{Load, load_doubles};
use serde_json::{Value, json};
use std::fmt;
use tensorferry_sdk::Dtype;

/// Number of elements that are compared at a time. This many elements of both sides fit in the L1
/// cache.
const BLOCK: usize = 1024;
/// Number of parallel lanes in a loop.
const LANES: usize = 8;
/// A factor slightly below one. The factor differs from one by more than the relative rounding
/// error of a product.
const ROUNDING_MARGIN: f64 = 1.0 - 4.0 * f64::EPSILON;

/// The accepted difference between two numbers: |a - b| <= atol + rtol × |b|.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The absolute tolerance.
    pub atol: f64,
    /// The tolerance relative to the magnitude of B.
    pub rtol: f64,
}

/// The distance between two tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distance {
    /// Number of elements that differ, by more than the tolerance if a tolerance was set.
    pub elements: u64,
    /// Total number of elements.
    pub of: u64,
    /// The accepted difference, if one was set.
    pub tolerance: Option<Tolerance>,
    /// Number of elements that are NaN on only one side. `elements` includes these elements.
    pub nan: u64,
    /// The largest absolute difference.
    pub absolute: Option<Largest>,
    /// The largest relative difference.
    pub relative: Option<Largest>,
    /// The cosine of the angle between the two tensors; `None` if one of the tensors is zero.
    pub cosine: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Largest {
    /// The difference between the two elements.
    pub value: f64,
    /// The index of the element.
    pub index: Vec<u64>,
    /// The numbers in A and B; `None` for complex numbers.
    pub values: Option<[f64; 2]>,
}

impl Distance {
    /// Returns the largest absolute or relative difference.
    #[must_use]
    pub(crate) fn worst(&self, is_relative: bool) -> f64 {
        let largest = if is_relative { &self.relative } else { &self.absolute };
        largest.as_ref().map_or(0.0, |largest| largest.value)
    }

    /// Adds the distance to a JSON record of a difference.
    pub(crate) fn add_to(&self, record: &mut Value) {
        record["elements"] = json!(self.elements);
        record["of"] = json!(self.of);
        record["nan"] = json!(self.nan);
        for (key, largest) in [("largest", &self.absolute), ("relative", &self.relative)] {
            let Some(largest) = largest else {
                record[key] = Value::Null;
                continue;
            };
            record[key] = number(largest.value);
            record[format!("{key}_at")] = json!(largest.index);
            if let Some(values) = largest.values {
                record[format!("{key}_values")] = json!(values.map(number));
            }
        }
        record["cosine"] = json!(self.cosine);
    }
}

/// Returns a number as JSON. Infinities and NaN become strings.
fn number(value: f64) -> Value {
    if value.is_finite() {
        json!(value)
    } else {
        Value::from(if value.is_nan() { "NaN".to_owned() } else { value.to_string() })
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.elements == 0 {
            return match self.tolerance {
                Some(Tolerance { atol, rtol }) if atol > 0.0 || rtol > 0.0 => {
                    write!(f, "all numbers within the tolerance")
                }
                _ => write!(f, "the same numbers in different bits (dtype, sign of zero, NaN payload)"),
            };
        }
        write!(f, "{} of {} differ", self.elements, self.of)?;
        if let Some(largest) = &self.absolute {
            write!(f, ", by {} at {:?}", short(largest.value, 3), largest.index)?;
            if let Some([a, b]) = largest.values {
                write!(f, " ({} and {})", short(a, 6), short(b, 6))?;
            }
        }
        if let Some(largest) = &self.relative {
            write!(f, ", relative {} at {:?}", short(largest.value, 3), largest.index)?;
        }
        if self.nan > 0 {
            write!(f, ", {} NaN on one side", self.nan)?;
        }
        match self.cosine {
            Some(cosine) => write!(f, ", cosine {cosine:.6}"),
            None => Ok(()),
        }
    }
}

/// Formats a number with at most the specified number of significant digits.
fn short(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let exponent: i32 =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return scientific;
    }
    let places = i32::try_from(digits).unwrap_or(0) - 1 - exponent;
    let text = format!("{value:.*}", usize::try_from(places).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The largest difference so far: its size, the element's position, and both numbers.
type LargestDifference = (f64, u64, [f64; 2]);

/// The distance between the elements that have been compared so far. The tallies of two consecutive
/// parts can be [joined](DistanceTally::join).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DistanceTally {
    pub(super) elements: u64,
    pub(super) nan: u64,
    absolute: Option<LargestDifference>,
    relative: Option<LargestDifference>,
    dot: f64,
    squares: [f64; 2],
    /// Whether any bytes or the two dtypes differ.
    pub(super) has_other_bits: bool,
}

impl DistanceTally {
    pub(super) fn join(mut self, next: &Self) -> Self {
        self.elements += next.elements;
        self.nan += next.nan;
        self.dot += next.dot;
        self.squares[0] += next.squares[0];
        self.squares[1] += next.squares[1];
        self.has_other_bits |= next.has_other_bits;
        for (known, found) in [(&mut self.absolute, next.absolute), (&mut self.relative, next.relative)] {
            if let Some(found) = found
                && known.is_none_or(|known| found.0 > known.0)
            {
                *known = Some(found);
            }
        }
        self
    }

    pub(super) fn finish(&self, shape: &[u64], comparison: &Comparison) -> Distance {
        let largest = |found: Option<LargestDifference>| {
            let (value, place, values) = found?;
            let mut index = vec![0; shape.len()];
            let mut rest = place;
            for (index, &dim) in index.iter_mut().zip(shape).rev() {
                *index = rest % dim.max(1);
                rest /= dim.max(1);
            }
            Some(Largest { value, index, values: (!comparison.is_complex()).then_some(values) })
        };
        let size = self.squares[0].sqrt() * self.squares[1].sqrt();
        let cosine = self.dot / size;
        Distance {
            elements: self.elements,
            of: shape.iter().product(),
            tolerance: comparison.tolerance,
            nan: self.nan,
            absolute: largest(self.absolute),
            relative: largest(self.relative),
            cosine: (size > 0.0 && cosine.is_finite()).then(|| cosine.clamp(-1.0, 1.0)),
        }
    }

    /// Adds one pair of elements. `apart` is the difference, and `sizes` contains the two
    /// magnitudes.
    fn add(
        &mut self,
        place: u64,
        apart: f64,
        sizes: [f64; 2],
        values: [f64; 2],
        tolerance: Option<Tolerance>,
    ) {
        if values[0].is_nan() && values[1].is_nan()
            || apart == 0.0
            || values[0] == values[1] && apart.is_nan()
        {
            return;
        }
        if apart.is_finite() && tolerance.is_some_and(|t| apart <= t.atol + t.rtol * sizes[1]) {
            return;
        }
        self.elements += 1;
        if apart.is_nan() {
            self.nan += 1;
            return;
        }
        let relative = if apart.is_infinite() { f64::INFINITY } else { apart / sizes[0].max(sizes[1]) };
        for (known, found) in [(&mut self.absolute, apart), (&mut self.relative, relative)] {
            if known.is_none_or(|known| found > known.0) {
                *known = Some((found, place, values));
            }
        }
    }

    fn add_products(&mut self, a: f64, b: f64) {
        if a.is_finite() && b.is_finite() {
            self.dot += a * b;
            self.squares[0] += a * a;
            self.squares[1] += b * b;
        }
    }
}

/// A comparison of the numbers of two dtypes.
pub(super) struct Comparison {
    dtypes: [Dtype; 2],
    kind: NumberKind,
    tolerance: Option<Tolerance>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Real,
    /// Complex numbers, which are compared as pairs of F64.
    Complex,
    /// Integers of 64 bits, which are compared as integers.
    Wide,
}

impl Comparison {
    /// Returns the comparison for two dtypes, if their values are numbers of the same kind.
    pub(super) fn of(a: Dtype, b: Dtype, tolerance: Option<Tolerance>) -> Option<Self> {
        let kind = |dtype: Dtype| match dtype {
            Dtype::C128 | Dtype::C64 | Dtype::C32 | Dtype::BC32 => Some(NumberKind::Complex),
            Dtype::I64 | Dtype::U64 => Some(NumberKind::Wide),
            dtype => decode(dtype, &[]).map(|_| NumberKind::Real),
        };
        let kind = match (kind(a)?, kind(b)?) {
            (a, b) if a == b => a,
            (NumberKind::Complex, _) | (_, NumberKind::Complex) => return None,
            _ => NumberKind::Real,
        };
        Some(Self { dtypes: [a, b], kind, tolerance })
    }

    pub(super) fn is_complex(&self) -> bool {
        self.kind == NumberKind::Complex
    }

    /// Adds `count` contiguous elements of both sides. `first` is the position of the first element
    /// in the tensor.
    pub(super) fn add(&self, tally: &mut DistanceTally, first: u64, count: usize, a: &[u8], b: &[u8]) {
        let is_same = self.dtypes[0] == self.dtypes[1] && a == b;
        tally.has_other_bits |= !is_same;
        let mut sides = [[0.0; BLOCK]; 2];
        let parts = if self.is_complex() { 2 } else { 1 };
        let elements = BLOCK / parts;
        let [mut of_a, mut of_b] =
            [SideNumbers::of(self.dtypes[0], a, count), SideNumbers::of(self.dtypes[1], b, count)];
        for start in (0..count).step_by(elements) {
            let len = (count - start).min(elements) * parts;
            let [x, y] = &mut sides;
            let (x, y) = (&mut x[..len], &mut y[..len]);
            of_a.fill(start * parts, x);
            if is_same {
                y.copy_from_slice(x);
            } else {
                of_b.fill(start * parts, y);
            }
            let place = first + start as u64;
            let quick = products(x, y);
            let is_finite = quick.iter().all(|sum| sum.is_finite());
            if is_finite {
                tally.dot += quick[0];
                tally.squares[0] += quick[1];
                tally.squares[1] += quick[2];
            } else {
                x.iter().zip(&*y).for_each(|(x, y)| tally.add_products(*x, *y));
            }
            if is_same {
                continue;
            }
            match self.kind {
                NumberKind::Real if is_finite && self.tolerance.is_none() => {
                    quick_distances(tally, place, x, y);
                }
                NumberKind::Real => {
                    for (place, (&x, &y)) in (place..).zip(x.iter().zip(&*y)) {
                        let apart = if x == y { 0.0 } else { (x - y).abs() };
                        tally.add(place, apart, [x.abs(), y.abs()], [x, y], self.tolerance);
                    }
                }
                NumberKind::Complex => {
                    let pairs = x.as_chunks::<2>().0.iter().zip(y.as_chunks::<2>().0);
                    for (place, (x, y)) in (place..).zip(pairs) {
                        let part = |x: f64, y: f64| {
                            if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { x - y }
                        };
                        let apart = libm::hypot(part(x[0], y[0]), part(x[1], y[1]));
                        let is_nan = (0..2).any(|part| x[part].is_nan() != y[part].is_nan());
                        let apart = if is_nan { f64::NAN } else { apart };
                        let sizes = [libm::hypot(x[0], x[1]), libm::hypot(y[0], y[1])];
                        // The values 0 and 1 are placeholders. They are neither equal nor NaN, so
                        // that only `apart` affects the result.
                        tally.add(place, apart, sizes, [0.0, 1.0], self.tolerance);
                    }
                }
                NumberKind::Wide => {
                    let integers =
                        |dtype, bytes: &[u8]| match decode(dtype, &bytes[start * 8..(start + len) * 8]) {
                            Some(Elements::Integer(values)) => values,
                            _ => Vec::new(),
                        };
                    let pairs = integers(self.dtypes[0], a).into_iter().zip(integers(self.dtypes[1], b));
                    for (place, (x, y)) in (place..).zip(pairs) {
                        let (apart, values) = ((x - y).unsigned_abs() as f64, [x as f64, y as f64]);
                        let sizes = values.map(f64::abs);
                        // Two different integers may be equal after rounding to F64.
                        let values = if apart > 0.0 && values[0] == values[1] {
                            [values[0], values[1].next_up()]
                        } else {
                            values
                        };
                        tally.add(place, apart, sizes, values, self.tolerance);
                    }
                }
            }
        }
    }
}

/// The numbers of one side, as F64.
struct SideNumbers<'a> {
    bytes: &'a [u8],
    width: usize,
    load: Option<Load<f64>>,
    decoded: Vec<f64>,
}

impl<'a> SideNumbers<'a> {
    fn of(dtype: Dtype, bytes: &'a [u8], count: usize) -> Self {
        let part = match dtype {
            Dtype::C128 => Dtype::F64,
            Dtype::C64 => Dtype::F32,
            Dtype::C32 => Dtype::F16,
            Dtype::BC32 => Dtype::BF16,
            dtype => dtype,
        };
        let width = part.info().and_then(|info| info.element_bytes()).map_or(1, |bytes| bytes as usize);
        let load = load_doubles(part);
        let decoded = if load.is_some() { Vec::new() } else { decoded(dtype, bytes, count) };
        Self { bytes, width, load, decoded }
    }

    fn fill(&mut self, from: usize, numbers: &mut [f64]) {
        match self.load {
            Some(load) => load(&self.bytes[from * self.width..(from + numbers.len()) * self.width], numbers),
            None => numbers.copy_from_slice(&self.decoded[from..from + numbers.len()]),
        }
    }
}

/// Decodes elements of dtypes that cannot be cast: packed numbers, and integers that are codes for
/// other numbers.
fn decoded(dtype: Dtype, bytes: &[u8], count: usize) -> Vec<f64> {
    let values = match bits(dtype) {
        Some(bits) => decode(dtype, &unpacked(bytes, bits, 0, count)),
        None => decode(dtype, bytes),
    };
    match values {
        Some(Elements::Float(values, _)) => values,
        Some(Elements::Integer(values)) => values.into_iter().map(|value| value as f64).collect(),
        _ => vec![0.0; count],
    }
}

/// Returns the sums of a × b, a × a and b × b.
fn products(a: &[f64], b: &[f64]) -> [f64; 3] {
    let mut sums = [[0.0; LANES]; 3];
    let (a, rest_a) = a.as_chunks::<LANES>();
    let (b, rest_b) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[0][lane] += a[lane] * b[lane];
            sums[1][lane] += a[lane] * a[lane];
            sums[2][lane] += b[lane] * b[lane];
        }
    }
    for (a, b) in rest_a.iter().zip(rest_b) {
        sums[0][0] += a * b;
        sums[1][0] += a * a;
        sums[2][0] += b * b;
    }
    sums.map(|lanes| lanes.iter().sum())
}

/// Adds pairs of finite numbers. In most blocks, no difference exceeds the largest difference so
/// far. A fast first pass counts the differences and detects whether any difference is larger.
fn quick_distances(tally: &mut DistanceTally, first: u64, a: &[f64], b: &[f64]) {
    let largest = tally.absolute.map_or(0.0, |found| found.0);
    let relative = tally.relative.map_or(0.0, |found| found.0) * ROUNDING_MARGIN;
    let (mut differ, mut is_larger) = ([0_u64; LANES], [0_u64; LANES]);
    let (chunks_a, rest_a) = a.as_chunks::<LANES>();
    let (chunks_b, rest_b) = b.as_chunks::<LANES>();
    for (a, b) in chunks_a.iter().zip(chunks_b) {
        for lane in 0..LANES {
            let apart = (a[lane] - b[lane]).abs();
            let size = if a[lane].abs() > b[lane].abs() { a[lane].abs() } else { b[lane].abs() };
            differ[lane] += u64::from(apart > 0.0);
            is_larger[lane] |= u64::from((apart > largest) | (apart > relative * size));
        }
    }
    if is_larger.iter().all(|is| *is == 0) {
        tally.elements += differ.iter().sum::<u64>();
        let start = first + (chunks_a.len() * LANES) as u64;
        each(tally, start, rest_a, rest_b);
    } else {
        each(tally, first, a, b);
    }
}

fn each(tally: &mut DistanceTally, first: u64, a: &[f64], b: &[f64]) {
    for (place, (&a, &b)) in (first..).zip(a.iter().zip(b)) {
        tally.add(place, (a - b).abs(), [a.abs(), b.abs()], [a, b], None);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Computes the distance between two tensors, and checks it against a loop over all elements.
    fn of(a: &[f32], b: &[f32], step: usize) -> Distance {
        let comparison = Comparison::of(Dtype::F32, Dtype::F32, None).unwrap();
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let (x, y) = (bytes(a), bytes(b));
        let mut all = DistanceTally::default();
        for start in (0..a.len()).step_by(step) {
            let len = step.min(a.len() - start);
            let mut part = DistanceTally::default();
            let range = start * 4..(start + len) * 4;
            comparison.add(&mut part, start as u64, len, &x[range.clone()], &y[range]);
            all = all.join(&part);
        }
        all.finish(&[a.len() as u64], &comparison)
    }

    fn naive(a: &[f32], b: &[f32]) -> (u64, u64, f64, u64, f64, u64, f64) {
        let (mut count, mut nan, mut absolute, mut relative) = (0, 0, (0.0, 0), (0.0, 0));
        let (mut dot, mut aa, mut bb) = (0.0, 0.0, 0.0);
        for (place, (a, b)) in (0..).zip(a.iter().zip(b)) {
            let (a, b) = (f64::from(*a), f64::from(*b));
            if a.is_finite() && b.is_finite() {
                (dot, aa, bb) = (dot + a * b, aa + a * a, bb + b * b);
            }
            if a == b || (a.is_nan() && b.is_nan()) {
                continue;
            }
            count += 1;
            if a.is_nan() || b.is_nan() {
                nan += 1;
                continue;
            }
            let apart = (a - b).abs();
            let over = if apart.is_infinite() { apart } else { apart / a.abs().max(b.abs()) };
            if apart > absolute.0 {
                absolute = (apart, place);
            }
            if over > relative.0 {
                relative = (over, place);
            }
        }
        (count, nan, absolute.0, absolute.1, relative.0, relative.1, dot / aa.sqrt() / bb.sqrt())
    }

    #[test]
    fn figures_are_those_of_a_plain_loop() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
        };
        for len in [1, 7, 1024, 5000, 20_001] {
            let a: Vec<f32> = (0..len).map(|_| random()).collect();
            for kind in 0..4 {
                let mut b: Vec<f32> =
                    a.iter().map(|value| if kind == 0 { *value } else { value + random() * 1e-3 }).collect();
                b[len / 2] += 3.0;
                if kind == 2 {
                    (b[0], b[len - 1]) = (f32::NAN, f32::INFINITY);
                }
                if kind == 3 {
                    b.iter_mut().step_by(3).for_each(|value| *value = 0.0);
                }
                for step in [64, 1000, 1 << 16] {
                    let found = of(&a, &b, step);
                    let (count, nan, absolute, at, relative, over_at, cosine) = naive(&a, &b);
                    assert_eq!((found.elements, found.nan, found.of), (count, nan, len as u64));
                    let largest = |found: Option<Largest>| {
                        found.map_or((0.0, 0), |found| (found.value, found.index[0]))
                    };
                    assert_eq!(largest(found.absolute), (absolute, at), "{len} {kind} {step}");
                    assert_eq!(largest(found.relative), (relative, over_at), "{len} {kind} {step}");
                    assert!((found.cosine.unwrap_or(cosine) - cosine).abs() < 1e-12 || cosine.is_nan());
                }
            }
        }
    }

    #[test]
    fn integers_of_64_bits_and_complex_numbers_have_distances() {
        let tally = |dtype, a: &[u8], b: &[u8], count| {
            let comparison = Comparison::of(dtype, dtype, None).unwrap();
            let mut tally = DistanceTally::default();
            comparison.add(&mut tally, 0, count, a, b);
            tally.finish(&[count as u64], &comparison)
        };
        let (a, b) = ([i64::MAX, i64::MIN, 5], [i64::MAX - 1, i64::MAX, 5]);
        let bytes =
            |values: [i64; 3]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let found = tally(Dtype::I64, &bytes(a), &bytes(b), 3);
        assert_eq!((found.elements, found.absolute.unwrap().value), (2, u64::MAX as f64));
        let found = tally(Dtype::I64, &bytes([a[0], 1, 1]), &bytes([b[0], 1, 1]), 3);
        assert_eq!((found.elements, found.absolute.unwrap().value), (1, 1.0));
        let of = |values: [f32; 4]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let found = tally(Dtype::C64, &of([1.0, 2.0, 0.0, f32::NAN]), &of([4.0, 6.0, 0.0, 1.0]), 2);
        assert_eq!((found.elements, found.nan), (2, 1));
        let largest = found.absolute.unwrap();
        assert_eq!((largest.value, largest.index, largest.values), (5.0, vec![0], None));
    }

    #[test]
    fn nan_is_equal_to_nan_and_a_tolerance_lets_numbers_be_near() {
        let nan = of(&[f32::NAN, 0.0, f32::INFINITY], &[f32::NAN, -0.0, f32::INFINITY], 8);
        assert_eq!((nan.elements, nan.absolute, nan.relative), (0, None, None));
        let mut tally = DistanceTally::default();
        let bytes =
            |values: [f32; 2]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let near = Comparison::of(Dtype::F32, Dtype::F32, Some(Tolerance { atol: 0.1, rtol: 0.0 })).unwrap();
        near.add(&mut tally, 0, 2, &bytes([1.0, 2.0]), &bytes([1.05, 2.5]));
        assert_eq!((tally.elements, tally.absolute.unwrap().1), (1, 1));
    }
}
