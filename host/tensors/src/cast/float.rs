//! Floats of 8 and 16 bits: conversion to wider floats, and rounding from `f32` and `f64`.
//!
//! Numbers are rounded to the nearest float, ties to even, in one step. An `f64` is not rounded to
//! `f32` first. The code has no branches, so that the compiler can vectorize loops over it.

use super::CastLosses;

/// The result for a number that is too large for the dtype.
#[derive(PartialEq, Eq)]
pub(super) enum Overflow {
    Infinity,
    Largest,
    Nan,
}

/// An 8-bit or 16-bit float. From the highest to the lowest bits, it consists of a sign, an
/// exponent and a mantissa.
pub(super) trait SmallFloat {
    const BITS: u32;
    const MANTISSA: u32;
    const BIAS: i32;
    /// The bits of the largest number.
    const MAX: u32;
    const OVERFLOW: Overflow;
    const NAN: u32;

    const SIGN: u32 = 1 << (Self::BITS - 1);
    /// Whether the bits of negative zero represent NaN. If so, the dtype has only one zero and one
    /// NaN, both without a sign.
    const ONE_ZERO: bool = Self::NAN == Self::SIGN;
    /// The mask of the NaN bits that are copied from the payload of the original NaN.
    const PAYLOAD: u32 = if Self::BITS > 8 { (1 << (Self::MANTISSA - 1)) - 1 } else { 0 };
    /// The bits of the result if a number is too large.
    const BEYOND: u32 = match Self::OVERFLOW {
        Overflow::Infinity => Self::MAX + 1,
        Overflow::Largest => Self::MAX,
        Overflow::Nan => Self::NAN,
    };
}

macro_rules! small {
    ($($name:ident: $bits:literal bits, $mantissa:literal of mantissa, bias $bias:literal, at most $max:literal, then $over:ident, NaN $nan:literal;)*) => { $(
        pub(super) struct $name;

        impl SmallFloat for $name {
            const BITS: u32 = $bits;
            const MANTISSA: u32 = $mantissa;
            const BIAS: i32 = $bias;
            const MAX: u32 = $max;
            const OVERFLOW: Overflow = Overflow::$over;
            const NAN: u32 = $nan;
        }
    )* };
}

// Sources: IEEE 754, the OCP 8-bit floating point specification, and for the FNUZ dtypes, arXiv
// 2206.02915. Overflow is handled as in torch. In E4M3, infinities and numbers that are too large
// become the largest number (the saturating mode in the OCP specification). In the FNUZ dtypes,
// they become NaN.
small! {
    Half: 16 bits, 10 of mantissa, bias 15, at most 0x7bff, then Infinity, NaN 0x7e00;
    Brain: 16 bits, 7 of mantissa, bias 127, at most 0x7f7f, then Infinity, NaN 0x7fc0;
    E4m3: 8 bits, 3 of mantissa, bias 7, at most 0x7e, then Largest, NaN 0x7f;
    E5m2: 8 bits, 2 of mantissa, bias 15, at most 0x7b, then Infinity, NaN 0x7f;
    E4m3Fnuz: 8 bits, 3 of mantissa, bias 8, at most 0x7f, then Nan, NaN 0x80;
    E5m2Fnuz: 8 bits, 2 of mantissa, bias 16, at most 0x7f, then Nan, NaN 0x80;
    E4m3B11Fnuz: 8 bits, 3 of mantissa, bias 11, at most 0x7f, then Nan, NaN 0x80;
}

/// Evaluates to the instance of the function `$f` for a small-float dtype.
macro_rules! small_float {
    ($dtype:expr, $f:ident) => {
        Some(match $dtype {
            Dtype::F16 => $f::<float::Half, 2>,
            Dtype::BF16 => $f::<float::Brain, 2>,
            Dtype::F8_E4M3 => $f::<float::E4m3, 1>,
            Dtype::F8_E5M2 => $f::<float::E5m2, 1>,
            Dtype::F8_E4M3FNUZ => $f::<float::E4m3Fnuz, 1>,
            Dtype::F8_E5M2FNUZ => $f::<float::E5m2Fnuz, 1>,
            Dtype::F8_E4M3B11FNUZ => $f::<float::E4m3B11Fnuz, 1>,
            _ => return None,
        })
    };
}
pub(super) use small_float;

/// A rounded number, and three counts that describe what rounding lost. Each count is 0 or 1, and
/// at most one count is 1.
struct Rounded<Bits> {
    code: Bits,
    beyond: Bits,
    zero: Bits,
    rounded: Bits,
}

macro_rules! rounding {
    ($(#[$doc:meta])* $name:ident, $store:ident, $float:ty, $bits:ty, $mantissa:literal, $bias:literal) => {
        $(#[$doc])*
        #[inline(always)]
        #[expect(clippy::cast_sign_loss, reason = "the bias difference wraps around, and so does the sum")]
        fn $name<F: SmallFloat>(value: $float) -> Rounded<$bits> {
            const WIDTH: u32 = <$bits>::BITS;
            const INFINITE: $bits = <$float>::INFINITY.to_bits();
            let shift = $mantissa - F::MANTISSA;
            let bits = value.to_bits();
            let magnitude = bits & (<$bits>::MAX >> 1);

            // Adding slightly less than half of the last place, plus the lowest kept bit, rounds to
            // the nearest number. Remainders above one half are rounded up. Ties are rounded up
            // only if the lowest kept bit is 1.
            let to_bias = ((F::BIAS - $bias) as $bits) << $mantissa;
            let odd = (magnitude >> shift) & 1;
            let below_half = (1 << (shift - 1)) - 1;
            let normal = magnitude.wrapping_add(to_bias).wrapping_add(below_half).wrapping_add(odd) >> shift;
            let cut = magnitude & ((1 << shift) - 1) != 0;

            // Adding a number whose last place is that of the small float's subnormals makes the
            // processor round to that place.
            let least_normal = ((1 + $bias - F::BIAS) as $bits) << $mantissa;
            let place = (($bias + 1 + shift as i32 - F::BIAS) as $bits) << $mantissa;
            let (size, place) = (<$float>::from_bits(magnitude), <$float>::from_bits(place));
            let sum = size + place;
            let subnormal = sum.to_bits().wrapping_sub(place.to_bits());

            let is_small = magnitude < least_normal;
            let nearest = if is_small { subnormal } else { normal };
            let changed = if is_small { sum - place != size } else { cut };
            let is_nan = magnitude > INFINITE;
            let is_beyond = nearest > F::MAX as $bits;
            let nan = F::NAN as $bits | ((magnitude >> shift) & F::PAYLOAD as $bits);
            let size = if is_beyond { F::BEYOND as $bits } else { nearest };
            let size = if is_nan { nan } else { size };
            let sign = (bits >> (WIDTH - F::BITS)) & F::SIGN as $bits;
            let sign = if F::ONE_ZERO && size == 0 { 0 } else { sign };

            let stays = F::OVERFLOW == Overflow::Infinity && magnitude == INFINITE;
            let beyond = is_beyond & !is_nan & !stays;
            let zero = nearest == 0 && magnitude != 0;
            let rounded = changed & !is_beyond & !zero & !is_nan;
            Rounded { code: size | sign, beyond: beyond.into(), zero: zero.into(), rounded: rounded.into() }
        }

        /// Writes values as small floats, and counts the values that change.
        pub(super) fn $store<F: SmallFloat, const BYTES: usize>(
            values: &[$float],
            bytes: &mut [u8],
            lost: &mut CastLosses,
        ) {
            let (mut beyond, mut zero, mut rounded) = (0, 0, 0);
            for (value, bytes) in values.iter().zip(bytes.as_chunks_mut::<BYTES>().0) {
                let small = $name::<F>(*value);
                bytes.copy_from_slice(&small.code.to_le_bytes()[..BYTES]);
                beyond += small.beyond;
                zero += small.zero;
                rounded += small.rounded;
            }
            count::<F>(lost, u64::from(beyond), u64::from(zero), u64::from(rounded));
        }
    };
}

rounding!(
    /// Rounds an `f32` to a small float.
    from_single, store_single, f32, u32, 23, 127
);
rounding!(
    /// Rounds an `f64` to a small float.
    from_double, store_double, f64, u64, 52, 1023
);

/// Converts the bits of a small float to its value.
pub(super) fn to_double<F: SmallFloat>(code: u32) -> f64 {
    let (size, negative) = (code & (F::SIGN - 1), code & F::SIGN != 0);
    let value = if (F::ONE_ZERO && code == F::NAN) || size > F::MAX {
        if size == F::MAX + 1 && F::OVERFLOW == Overflow::Infinity { f64::INFINITY } else { f64::NAN }
    } else {
        // The same bits, interpreted as an f64, represent a number whose exponent is too small by
        // the difference of the biases.
        let unbiased = u64::try_from(2 * 1023 - F::BIAS).unwrap_or(0);
        f64::from_bits(u64::from(size) << (52 - F::MANTISSA)) * f64::from_bits(unbiased << 52)
    };
    if negative { -value } else { value }
}

/// Adds a block's changed values to the counters that apply to the small float.
fn count<F: SmallFloat>(lost: &mut CastLosses, beyond: u64, zero: u64, rounded: u64) {
    lost.zero += zero;
    lost.rounded += rounded;
    match F::OVERFLOW {
        Overflow::Infinity => lost.infinite += beyond,
        Overflow::Largest => lost.range += beyond,
        Overflow::Nan => lost.nan += beyond,
    }
}

/// Returns the E8M0 power of two that is nearest to a number, ties to the larger. As in torch, the
/// sign is dropped, zero becomes the smallest power, and infinity becomes NaN.
pub(super) fn to_exponent(value: f64, lost: &mut CastLosses) -> u8 {
    const NAN: u8 = 0xff;
    let size = value.abs();
    if !size.is_finite() {
        lost.nan += u64::from(!size.is_nan());
        return NAN;
    }
    // The exponent of the result. It is one more than the number's exponent if the number's
    // mantissa is at least 1.5.
    let bits = size.to_bits().saturating_add(1 << 51);
    let exponent = i32::try_from(bits >> 52).unwrap_or(i32::MAX) - 1023;
    let Ok(code) = u8::try_from(exponent.max(-127) + 127) else {
        lost.nan += 1;
        return NAN;
    };
    match code {
        NAN => lost.nan += 1,
        _ if value.is_sign_negative() && size != 0.0 => lost.range += 1,
        code if from_exponent(code) != size => lost.rounded += 1,
        _ => {}
    }
    code
}

/// Converts the bits of an E8M0 float to its value.
pub(super) fn from_exponent(code: u8) -> f64 {
    if code == 0xff { f64::NAN } else { f64::from_bits((u64::from(code) + 1023 - 127) << 52) }
}
