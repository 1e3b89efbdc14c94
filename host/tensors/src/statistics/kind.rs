//! The loop that computes the statistics for a dtype, or the reason why statistics are not
//! available.

use super::codes::CodeTable;
use super::floats::{BLOCK, FloatFacts, doubles, singles};
use super::partial::PartialStatistics;
use super::{complex, integers};
use crate::cast::{Load, load_singles};
use half::{bf16, f16};
use tensorferry_sdk::{Dtype, DtypeInfo};

/// The method that computes the statistics of a dtype's elements.
#[derive(Clone, Copy)]
pub struct StatisticsKind(pub(super) ElementLoop);

/// The loop over the elements.
#[derive(Clone, Copy)]
pub(super) enum ElementLoop {
    /// F32, F16 or BF16.
    Singles(Load<f32>, usize, FloatFacts),
    Doubles,
    Integers(fn(&[u8], &mut PartialStatistics), Dtype),
    /// Complex numbers: the number of bytes of an element, and the function that reads the real or
    /// imaginary part.
    Complex(usize, fn(&[u8]) -> f64, FloatFacts),
    Codes(&'static CodeTable),
    Texts,
}

const HALF: FloatFacts = FloatFacts { least_normal: 6.103_515_625e-5, largest: 65504.0 };
/// The bits of the largest BF16 are the upper half of the bits of `f32::MAX`.
const BRAIN: FloatFacts =
    FloatFacts { least_normal: SINGLE.least_normal, largest: f32::from_bits(0x7f7f_0000) as f64 };
const SINGLE: FloatFacts = FloatFacts { least_normal: f32::MIN_POSITIVE as f64, largest: f32::MAX as f64 };
pub(super) const DOUBLE: FloatFacts = FloatFacts { least_normal: f64::MIN_POSITIVE, largest: f64::MAX };

/// Reads the real or imaginary part of a complex number. `part` must be exactly as long as one
/// value of its dtype.
fn number<const N: usize>(part: &[u8], convert: fn([u8; N]) -> f64) -> f64 {
    part.try_into().map_or(f64::NAN, convert)
}

impl StatisticsKind {
    /// Returns the method for the elements of a dtype, or the reason why its elements are not
    /// numbers.
    pub fn of(dtype: Dtype, info: &DtypeInfo) -> Result<Self, String> {
        let singles = |width, facts| load_singles(dtype).map(|load| ElementLoop::Singles(load, width, facts));
        let complex = |width, read, facts| Some(ElementLoop::Complex(width, read, facts));
        let found = match dtype {
            Dtype::F32 => singles(4, SINGLE),
            Dtype::F16 => singles(2, HALF),
            Dtype::BF16 => singles(2, BRAIN),
            Dtype::F64 => Some(ElementLoop::Doubles),
            Dtype::I16 => Some(ElementLoop::Integers(integers::of_i16, dtype)),
            Dtype::U16 => Some(ElementLoop::Integers(integers::of_u16, dtype)),
            Dtype::I32 => Some(ElementLoop::Integers(integers::of_i32, dtype)),
            Dtype::U32 => Some(ElementLoop::Integers(integers::of_u32, dtype)),
            Dtype::I64 => Some(ElementLoop::Integers(integers::of_i64, dtype)),
            Dtype::U64 => Some(ElementLoop::Integers(integers::of_u64, dtype)),
            Dtype::C32 => complex(4, |part| number(part, |bytes| f16::from_le_bytes(bytes).into()), HALF),
            Dtype::BC32 => complex(4, |part| number(part, |bytes| bf16::from_le_bytes(bytes).into()), BRAIN),
            Dtype::C64 => complex(8, |part| number(part, |bytes| f32::from_le_bytes(bytes).into()), SINGLE),
            Dtype::C128 => complex(16, |part| number(part, f64::from_le_bytes), DOUBLE),
            Dtype::STR => Some(ElementLoop::Texts),
            dtype => CodeTable::of(dtype).map(ElementLoop::Codes),
        };
        found.map(Self).ok_or_else(|| without_numbers(dtype, info))
    }

    /// Returns whether elements are floats of any width.
    #[must_use]
    pub fn is_float(dtype: Dtype) -> bool {
        let is_small = [Dtype::F6_E2M3, Dtype::F6_E3M2, Dtype::F4, Dtype::F4_UNPACKED].contains(&dtype);
        is_small || crate::cast::is_float(dtype)
    }
}

fn without_numbers(dtype: Dtype, info: &DtypeInfo) -> String {
    let name = info.name();
    match dtype {
        Dtype::QI8 | Dtype::QU8 | Dtype::QI16 | Dtype::QU16 | Dtype::QI32 | Dtype::QU4X2 | Dtype::QU2X4 => {
            format!("{name} consists of codes with unknown values")
        }
        _ if dtype.info().is_some() => format!("{name} consists of bits without a numeric meaning"),
        _ => format!("{name} is specific to its format, whose reader does not decode it to numbers"),
    }
}

impl ElementLoop {
    /// Adds contiguous elements to the statistics. Strings are not supported.
    pub(super) fn add(self, bytes: &[u8], into: &mut PartialStatistics) {
        match self {
            Self::Singles(load, width, facts) => {
                let mut values = [0_f32; BLOCK];
                for bytes in bytes.chunks(BLOCK * width) {
                    let values = &mut values[..bytes.len() / width];
                    load(bytes, values);
                    singles(values, facts, into);
                }
            }
            Self::Doubles => {
                let mut values = [0_f64; BLOCK];
                for bytes in bytes.as_chunks::<8>().0.chunks(BLOCK) {
                    let values = &mut values[..bytes.len()];
                    values
                        .iter_mut()
                        .zip(bytes)
                        .for_each(|(value, bytes)| *value = f64::from_le_bytes(*bytes));
                    doubles(values, DOUBLE, into);
                }
            }
            Self::Integers(add, _) => add(bytes, into),
            Self::Complex(width, read, facts) => complex::add(bytes, width, read, facts, into),
            Self::Codes(codes) => codes.add(bytes, into),
            Self::Texts => {}
        }
    }
}
