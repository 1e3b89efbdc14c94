//! Elements: the individual values in a tensor's bytes, decoded for display and JSON.

use crate::cast::{Cast, is_float};
use half::{bf16, f16};
use tensorferry_sdk::{Dtype, DtypeInfo};

/// Decoded values of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    Bool(Vec<bool>),
    /// Integers, or bits without a numeric meaning.
    Integer(Vec<i128>),
    /// Floats, all of which F64 can represent exactly.
    Float(Vec<f64>, Precision),
    /// Pairs of a real and an imaginary part.
    Complex(Vec<(f64, f64)>, Precision),
    /// Strings, which may not be valid UTF-8.
    Text(Vec<Vec<u8>>),
}

/// The precision of a float. It determines how many decimal digits distinguish a float from its
/// neighbors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    Double,
    /// The precision of F32. It is also used for floats of 8 bits or fewer, which are shown
    /// exactly.
    Single,
    Half,
    Brain,
}

impl Precision {
    /// Rounds a number to the nearest float of this precision.
    #[must_use]
    pub fn round(self, value: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "to the nearest")]
        match self {
            Self::Double => value,
            Self::Single => f64::from(value as f32),
            Self::Half => f16::from_f32(to_odd(value)).into(),
            Self::Brain => bf16::from_f32(to_odd(value)).into(),
        }
    }
}

/// Converts a number to an F32 whose last bit is set if the conversion dropped any bits. The result
/// can therefore be rounded again to fewer bits. The `half` crate's conversion from F64 is not
/// used, because it uses only 20 bits of the mantissa. It therefore treats numbers near the
/// midpoint between two floats as the midpoint itself.
fn to_odd(value: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the cut off part is checked below")]
    let nearest = value as f32;
    if !nearest.is_finite() || f64::from(nearest) == value {
        return nearest;
    }
    let is_beyond = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(is_beyond)) | 1)
}

impl Elements {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Float(values, _) => values.len(),
            Self::Complex(values, _) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns whether individual values can be decoded from a dtype's bytes. Values of block dtypes
/// that a format defines cannot be decoded individually.
#[must_use]
pub fn has_values(dtype: Dtype) -> bool {
    dtype == Dtype::STR || bits(dtype).is_some() || decode(dtype, &[]).is_some()
}

/// Returns the number of bits of an element, if several elements share a byte. The first element is
/// in the lowest bits.
#[must_use]
pub fn bits(dtype: Dtype) -> Option<u32> {
    let info: &DtypeInfo = dtype.info()?;
    (info.block_elements() > 1).then(|| info.block_bytes() * 8 / info.block_elements())
}

/// Unpacks the elements `first..first + count`. Each element is in the low bits of one output byte.
#[must_use]
pub fn unpacked(bytes: &[u8], bits: u32, first: u64, count: usize) -> Vec<u8> {
    let mask = (1_u16 << bits) - 1;
    let code = |at: u64| {
        let bit = at * u64::from(bits);
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        let of = |byte: usize| bytes.get(byte).copied().unwrap_or(0);
        let pair = u16::from_le_bytes([of(byte), of(byte.saturating_add(1))]);
        (pair >> (bit % 8) & mask).to_le_bytes()[0]
    };
    (first..).take(count).map(code).collect()
}

/// Decodes contiguous little-endian elements. Packed elements must first be unpacked to one byte
/// each. Strings are not supported. Returns `None` for a dtype without individual values.
#[must_use]
pub fn decode(dtype: Dtype, bytes: &[u8]) -> Option<Elements> {
    let precision = match dtype {
        Dtype::F64 | Dtype::C128 => Precision::Double,
        Dtype::F16 | Dtype::C32 => Precision::Half,
        Dtype::BF16 | Dtype::BC32 => Precision::Brain,
        _ => Precision::Single,
    };
    macro_rules! integers {
        ($type:ty) => {{
            let numbers = bytes.as_chunks().0.iter();
            Some(Elements::Integer(numbers.map(|bytes| <$type>::from_le_bytes(*bytes).into()).collect()))
        }};
    }
    let complex = |part: Dtype| {
        let parts = doubles(part, bytes)?;
        Some(Elements::Complex(
            parts.as_chunks::<2>().0.iter().map(|&[re, im]| (re, im)).collect(),
            precision,
        ))
    };
    let table = |value: &dyn Fn(u8) -> f64| {
        Some(Elements::Float(bytes.iter().map(|&code| value(code)).collect(), precision))
    };
    let codes =
        |value: &dyn Fn(u8) -> i128| Some(Elements::Integer(bytes.iter().map(|&code| value(code)).collect()));
    match dtype {
        Dtype::BOOL => Some(Elements::Bool(bytes.iter().map(|&byte| byte != 0).collect())),
        Dtype::U8 | Dtype::QU8 | Dtype::BITS8 | Dtype::BITS1X8 | Dtype::BITS2X4 | Dtype::BITS4X2 => {
            integers!(u8)
        }
        Dtype::I8 | Dtype::QI8 => integers!(i8),
        Dtype::U16 | Dtype::QU16 | Dtype::BITS16 => integers!(u16),
        Dtype::I16 | Dtype::QI16 => integers!(i16),
        Dtype::U32 => integers!(u32),
        Dtype::I32 | Dtype::QI32 => integers!(i32),
        Dtype::U64 => integers!(u64),
        Dtype::I64 => integers!(i64),
        Dtype::U4 | Dtype::U4_UNPACKED | Dtype::QU4X2 => codes(&|code| (code & 15).into()),
        Dtype::I4 | Dtype::I4_UNPACKED => codes(&|code| i128::from(code & 15) - i128::from(code & 8) * 2),
        Dtype::U2 | Dtype::U2_UNPACKED | Dtype::QU2X4 => codes(&|code| (code & 3).into()),
        Dtype::I2 | Dtype::I2_UNPACKED => codes(&|code| i128::from(code & 3) - i128::from(code & 2) * 2),
        Dtype::F4 | Dtype::F4_UNPACKED => table(&|code| small(code & 15, 2, 1)),
        Dtype::F6_E2M3 => table(&|code| small(code & 63, 2, 3)),
        Dtype::F6_E3M2 => table(&|code| small(code & 63, 3, 2)),
        Dtype::C128 => complex(Dtype::F64),
        Dtype::C64 => complex(Dtype::F32),
        Dtype::C32 => complex(Dtype::F16),
        Dtype::BC32 => complex(Dtype::BF16),
        dtype if is_float(dtype) => Some(Elements::Float(doubles(dtype, bytes)?, precision)),
        _ => None,
    }
}

/// Splits `count` strings, each stored as its length followed by its bytes.
#[must_use]
pub fn texts(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut texts = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX).min(rest.len());
        let (text, rest) = rest.split_at(len);
        texts.push(text);
        bytes = rest;
    }
    texts
}

/// Decodes floats to F64, which can represent each float exactly.
fn doubles(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    let width = dtype.info()?.element_bytes()? as usize;
    let mut wide = vec![0; bytes.len() / width * size_of::<f64>()];
    Cast::between(dtype, Dtype::F64).ok()?.run(bytes, &mut wide);
    Some(wide.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
}

/// Decodes a float that has a sign and the specified numbers of exponent and mantissa bits, but
/// neither NaN nor infinity.
fn small(code: u8, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let mantissa = code & ((1 << mantissa_bits) - 1);
    let exponent = i32::from(code >> mantissa_bits & ((1 << exponent_bits) - 1));
    let bias = (1 << (exponent_bits - 1)) - 1;
    let implied = if exponent == 0 { 0.0 } else { 1.0 };
    let size = (implied + f64::from(mantissa) / f64::from(1_u32 << mantissa_bits))
        * f64::from(exponent.max(1) - bias).exp2();
    if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_elements_have_values() {
        let all: Vec<u8> = (0..16).collect();
        let integers = |dtype| match decode(dtype, &all) {
            Some(Elements::Integer(values)) => values,
            _ => Vec::new(),
        };
        assert_eq!(integers(Dtype::I4), [0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1]);
        assert_eq!(integers(Dtype::U4), (0..16).collect::<Vec<i128>>());
        assert_eq!(integers(Dtype::I2)[..4], [0, 1, -2, -1]);
        let Some(Elements::Float(values, _)) = decode(Dtype::F4, &all) else { panic!("no floats") };
        assert_eq!(values[..9], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0]);
        assert_eq!((values[9], values[15]), (-0.5, -6.0));
        let Some(Elements::Float(values, _)) = decode(Dtype::F6_E3M2, &[1, 31]) else { panic!("no floats") };
        assert_eq!(values, [0.0625, 28.0]);
        let Some(Elements::Float(values, _)) = decode(Dtype::F6_E2M3, &[1, 31, 63]) else {
            panic!("no floats")
        };
        assert_eq!(values, [0.125, 7.5, -7.5]);
        // Three bytes contain four codes, so a code may span two bytes.
        assert_eq!(unpacked(&[0b1100_0001, 0b0011_0000, 0b0000_1000], 6, 0, 4), [1, 3, 3, 2]);
        assert_eq!(unpacked(&[0x21, 0x43], 4, 1, 3), [2, 3, 4]);
    }

    #[test]
    fn strings_come_apart() {
        let bytes =
            [&2_u64.to_le_bytes()[..], b"ab", &0_u64.to_le_bytes(), &1_u64.to_le_bytes(), b"c"].concat();
        assert_eq!(texts(&bytes), [&b"ab"[..], b"", b"c"]);
    }

    #[test]
    fn every_built_in_dtype_has_values() {
        let without: Vec<Dtype> = Dtype::built_in().filter(|dtype| !has_values(*dtype)).collect();
        assert_eq!(without, []);
    }
}
