//! Statistics for dtypes of up to eight bits. For all of these dtypes, the occurrences of each code
//! are counted, and all statistics are computed from these counts.

use super::moments::Moments;
use super::partial::{Number, PartialStatistics};
use crate::cast::{Cast, is_float};
use std::sync::OnceLock;
use tensorferry_sdk::Dtype;

/// How codes are packed in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BitPacking {
    /// One code per byte.
    Byte,
    /// Two or four codes per byte, with this many bits each. The first code is in the lowest bits.
    InByte(u32),
    /// Four codes in three bytes. The first code is in the lowest bits.
    Six,
}

/// The values of a dtype's codes.
#[derive(Debug)]
pub(super) struct CodeTable {
    packing: BitPacking,
    /// The value of each code; NaN for a code that does not represent a number.
    values: [f64; 256],
    is_integer: bool,
    least_normal: f64,
    largest: f64,
}

/// A dtype, its packing, the function that decodes a code, and the smallest normal number if the
/// dtype is a float.
type CodeRow = (Dtype, BitPacking, fn(u8) -> f64, Option<f64>);

/// Dtypes that casts do not support. They include the dtypes in which several codes share a byte.
const UNCASTABLE: [CodeRow; 12] = [
    (Dtype::F6_E2M3, BitPacking::Six, |code| small(code, 6, 3, 1), Some(1.0)),
    (Dtype::F6_E3M2, BitPacking::Six, |code| small(code, 6, 2, 3), Some(0.25)),
    (Dtype::F4, BitPacking::InByte(4), |code| small(code, 4, 1, 1), Some(1.0)),
    (Dtype::F4_UNPACKED, BitPacking::Byte, |code| small(code, 4, 1, 1), Some(1.0)),
    (Dtype::I4, BitPacking::InByte(4), |code| signed(code, 4), None),
    (Dtype::U4, BitPacking::InByte(4), |code| f64::from(code & 0xf), None),
    (Dtype::I2, BitPacking::InByte(2), |code| signed(code, 2), None),
    (Dtype::U2, BitPacking::InByte(2), |code| f64::from(code & 3), None),
    (Dtype::I4_UNPACKED, BitPacking::Byte, |code| signed(code, 4), None),
    (Dtype::U4_UNPACKED, BitPacking::Byte, |code| f64::from(code & 0xf), None),
    (Dtype::I2_UNPACKED, BitPacking::Byte, |code| signed(code, 2), None),
    (Dtype::U2_UNPACKED, BitPacking::Byte, |code| f64::from(code & 3), None),
];

/// One-byte dtypes that can be cast, with the smallest normal number if the dtype is a float. All
/// numbers of E8M0 are normal.
const BYTES: [(Dtype, Option<f64>); 9] = [
    (Dtype::BOOL, None),
    (Dtype::U8, None),
    (Dtype::I8, None),
    (Dtype::F8_E4M3, Some(1.0 / 64.0)),
    (Dtype::F8_E5M2, Some(1.0 / 16384.0)),
    (Dtype::F8_E4M3FNUZ, Some(1.0 / 128.0)),
    (Dtype::F8_E5M2FNUZ, Some(1.0 / 32768.0)),
    (Dtype::F8_E4M3B11FNUZ, Some(1.0 / 1024.0)),
    (Dtype::F8_E8M0, Some(0.0)),
];

/// Decodes a signed integer of `bits` bits.
fn signed(code: u8, bits: u32) -> f64 {
    let unused = 8 - bits;
    f64::from((code << unused).cast_signed() >> unused)
}

/// Decodes a `bits`-bit float of a dtype that has neither infinities nor NaN.
fn small(code: u8, bits: u32, mantissa: u32, bias: i32) -> f64 {
    let fraction = f64::from(code & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
    let exponent = i32::from((code & ((1 << (bits - 1)) - 1)) >> mantissa);
    let size = if exponent == 0 {
        fraction * 2_f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2_f64.powi(exponent - bias)
    };
    if code >> (bits - 1) & 1 == 1 { -size } else { size }
}

impl CodeTable {
    /// Returns the code table of a dtype whose codes have at most eight bits.
    pub(super) fn of(dtype: Dtype) -> Option<&'static Self> {
        const COUNT: usize = UNCASTABLE.len() + BYTES.len();
        static TABLES: [OnceLock<CodeTable>; COUNT] = [const { OnceLock::new() }; COUNT];
        if let Some(place) = UNCASTABLE.iter().position(|row| row.0 == dtype) {
            let (_, packing, value, least_normal) = UNCASTABLE[place];
            let is_used = move |code: u8| match packing {
                BitPacking::Byte => true,
                BitPacking::InByte(bits) => u32::from(code) < 1 << bits,
                BitPacking::Six => code < 64,
            };
            let value = move |code| if is_used(code) { value(code) } else { f64::NAN };
            return Some(TABLES[place].get_or_init(|| Self::new(packing, least_normal, value)));
        }
        let place = BYTES.iter().position(|row| row.0 == dtype)?;
        let least_normal = BYTES[place].1.filter(|_| is_float(dtype));
        let cast = Cast::between(dtype, Dtype::F64).ok()?;
        let value = |code| {
            let mut bytes = [0; 8];
            cast.run(&[code], &mut bytes);
            f64::from_le_bytes(bytes)
        };
        Some(
            TABLES[UNCASTABLE.len() + place].get_or_init(|| Self::new(BitPacking::Byte, least_normal, value)),
        )
    }

    fn new(packing: BitPacking, least_normal: Option<f64>, value: impl Fn(u8) -> f64) -> Self {
        let mut values = [0.0; 256];
        (0..=u8::MAX).zip(&mut values).for_each(|(code, place)| *place = value(code));
        let sizes = values.iter().map(|value| value.abs()).filter(|size| size.is_finite());
        let largest = sizes.fold(0.0, f64::max);
        let is_integer = least_normal.is_none();
        Self { packing, values, is_integer, least_normal: least_normal.unwrap_or(0.0), largest }
    }

    /// Counts the occurrences of each code.
    fn counts(&self, bytes: &[u8]) -> [u64; 256] {
        match self.packing {
            BitPacking::Byte => count(bytes),
            BitPacking::InByte(bits) => {
                let mut counts = [0; 256];
                for (byte, times) in (0..=u8::MAX).zip(count(bytes)) {
                    for place in (0..8).step_by(bits as usize) {
                        counts[usize::from(byte >> place & ((1 << bits) - 1))] += times;
                    }
                }
                counts
            }
            BitPacking::Six => {
                let mut counts = [0; 256];
                for [a, b, c] in bytes.as_chunks::<3>().0 {
                    let four = u32::from_le_bytes([*a, *b, *c, 0]);
                    (0..4).for_each(|place| counts[(four >> (6 * place) & 0x3f) as usize] += 1);
                }
                counts
            }
        }
    }

    /// Adds contiguous numbers to the statistics.
    pub(super) fn add(&self, bytes: &[u8], into: &mut PartialStatistics) {
        let counts = self.counts(bytes);
        let numbers = self.values.iter().copied().zip(counts).filter(|(_, times)| *times > 0);
        for (value, times) in numbers.clone() {
            if !value.is_finite() {
                into.nan += if value.is_nan() { times } else { 0 };
                into.positive_infinities += if value == f64::INFINITY { times } else { 0 };
                into.negative_infinities += if value == f64::NEG_INFINITY { times } else { 0 };
                continue;
            }
            let number = self.number(value);
            into.reach(number, number);
            into.zeros += if value == 0.0 { times } else { 0 };
            if !self.is_integer {
                into.subnormals += if value != 0.0 && value.abs() < self.least_normal { times } else { 0 };
                into.saturated += if value.abs() >= self.largest { times } else { 0 };
            }
        }
        into.moments.merge(&Moments::of_counted(numbers.filter(|(value, _)| value.is_finite())));
    }

    /// Passes each number that occurs in `bytes` to `see`, with its number of occurrences.
    pub(super) fn each(&self, bytes: &[u8], mut see: impl FnMut(f64, u64)) {
        let counts = self.counts(bytes);
        self.values
            .iter()
            .zip(counts)
            .filter(|(_, times)| *times > 0)
            .for_each(|(value, times)| see(*value, times));
    }

    fn number(&self, value: f64) -> Number {
        #[expect(clippy::cast_possible_truncation, reason = "an integer of eight bits")]
        let integer = value as i128;
        if self.is_integer { Number::Integer(integer) } else { Number::Float(value) }
    }
}

/// Counts the occurrences of each byte value. Four counters per value are used, because consecutive
/// increments of the same counter would wait for each other.
fn count(bytes: &[u8]) -> [u64; 256] {
    let mut counts = [[0_u64; 256]; 4];
    let (groups, rest) = bytes.as_chunks::<4>();
    for group in groups {
        for (counts, byte) in counts.iter_mut().zip(group) {
            counts[usize::from(*byte)] += 1;
        }
    }
    rest.iter().for_each(|byte| counts[0][usize::from(*byte)] += 1);
    let [mut all, others @ ..] = counts;
    for counts in others {
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    all
}
