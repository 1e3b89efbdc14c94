//! The set of numbers that a dtype can represent. A comparison of two sets shows whether a cast
//! preserves every number.

use tensorferry_sdk::Dtype;

/// The numbers that a dtype can represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberSet {
    Bool,
    /// Integers with this many bits, including the sign.
    Integer {
        signed: bool,
        bits: i32,
    },
    Float(FloatRange),
}

/// The numbers of a float dtype: the multiples of 2^`min` below 2^`beyond` whose significands have
/// at most `digits` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FloatRange {
    /// Number of bits in the significand, including the implicit bit.
    digits: i32,
    /// The exponent of the smallest nonzero number.
    min: i32,
    /// The exponent of the first power of two that is too large.
    beyond: i32,
    /// Number of significands that do not represent numbers. Such significands are the largest ones
    /// below 2^`beyond`.
    missing: i32,
    infinite: bool,
    /// Whether the dtype has zero and signs. E8M0 has neither.
    zero: bool,
}

const fn float(digits: i32, min: i32, beyond: i32, missing: i32, infinite: bool) -> NumberSet {
    NumberSet::Float(FloatRange { digits, min, beyond, missing, infinite, zero: true })
}

/// All castable dtypes, in no particular order.
pub(super) const NUMBERS: [(Dtype, NumberSet); 19] = [
    (Dtype::BOOL, NumberSet::Bool),
    (Dtype::U8, NumberSet::Integer { signed: false, bits: 8 }),
    (Dtype::I8, NumberSet::Integer { signed: true, bits: 8 }),
    (Dtype::U16, NumberSet::Integer { signed: false, bits: 16 }),
    (Dtype::I16, NumberSet::Integer { signed: true, bits: 16 }),
    (Dtype::U32, NumberSet::Integer { signed: false, bits: 32 }),
    (Dtype::I32, NumberSet::Integer { signed: true, bits: 32 }),
    (Dtype::U64, NumberSet::Integer { signed: false, bits: 64 }),
    (Dtype::I64, NumberSet::Integer { signed: true, bits: 64 }),
    (Dtype::F64, float(53, -1074, 1024, 0, true)),
    (Dtype::F32, float(24, -149, 128, 0, true)),
    (Dtype::BF16, float(8, -133, 128, 0, true)),
    (Dtype::F16, float(11, -24, 16, 0, true)),
    // In F8_E4M3, the largest significand with the largest exponent represents NaN.
    (Dtype::F8_E4M3, float(4, -9, 9, 1, false)),
    (Dtype::F8_E5M2, float(3, -16, 16, 0, true)),
    (Dtype::F8_E4M3FNUZ, float(4, -10, 8, 0, false)),
    (Dtype::F8_E5M2FNUZ, float(3, -17, 16, 0, false)),
    (Dtype::F8_E4M3B11FNUZ, float(4, -13, 5, 0, false)),
    (
        Dtype::F8_E8M0,
        NumberSet::Float(FloatRange {
            digits: 1,
            min: -127,
            beyond: 128,
            missing: 0,
            infinite: false,
            zero: false,
        }),
    ),
];

impl NumberSet {
    /// Returns the numbers of a castable dtype.
    pub(super) fn of(dtype: Dtype) -> Option<Self> {
        NUMBERS.iter().find(|(known, _)| *known == dtype).map(|(_, number)| *number)
    }

    /// Returns whether the set `other` contains every number of this set, including infinities and
    /// NaN. The sign of zero is ignored.
    pub(super) fn fits(self, other: Self) -> bool {
        match (self, other) {
            (Self::Bool, Self::Float(to)) => to.zero,
            (Self::Bool, _) => true,
            (Self::Integer { signed, bits }, Self::Integer { signed: to_signed, bits: to_bits }) => {
                if signed == to_signed { bits <= to_bits } else { to_signed && bits < to_bits }
            }
            // The magnitude of the smallest integer is a power of two, so the smallest integer fits
            // if the largest integer fits.
            (Self::Integer { signed, bits }, Self::Float(to)) => {
                let digits = bits - i32::from(signed);
                to.zero && digits <= to.digits && digits < to.beyond
            }
            (Self::Float(from), Self::Float(to)) => {
                from.digits <= to.digits
                    && from.min >= to.min
                    && (from.beyond < to.beyond || (from.beyond == to.beyond && to.missing == 0))
                    && to.infinite >= from.infinite
                    && to.zero >= from.zero
            }
            (Self::Float(_) | Self::Integer { .. }, Self::Bool) | (Self::Float(_), Self::Integer { .. }) => {
                false
            }
        }
    }
}
