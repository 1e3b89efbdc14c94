//! Casts through `f64`, which can represent the numbers of all other dtypes except 64-bit integers.

use super::CastLosses;
use super::float::{self, small_float, store_double, to_double};
use super::loops::{Load, Store, load, store};
use half::{bf16, f16};
use tensorferry_sdk::Dtype;

/// Returns the loop that converts values of a dtype to `f64`. Rounds 64-bit integers to odd, so
/// that the result of a second rounding to a smaller float is the number nearest to the original.
pub(super) fn load(dtype: Dtype) -> Option<Load<f64>> {
    Some(match dtype {
        Dtype::BOOL => load!(u8, |byte| f64::from(u8::from(byte != 0))),
        Dtype::U8 => load!(u8, f64::from),
        Dtype::I8 => load!(i8, f64::from),
        Dtype::U16 => load!(u16, f64::from),
        Dtype::I16 => load!(i16, f64::from),
        Dtype::U32 => load!(u32, f64::from),
        Dtype::I32 => load!(i32, f64::from),
        Dtype::U64 => load!(u64, to_odd),
        Dtype::I64 => load!(i64, |value: i64| {
            let size = to_odd(value.unsigned_abs());
            if value < 0 { -size } else { size }
        }),
        Dtype::F64 => load!(f64, |value| value),
        Dtype::F32 => load!(f32, f64::from),
        Dtype::BF16 => load!(bf16, f64::from),
        Dtype::F16 => load!(f16, f64::from),
        Dtype::F8_E4M3 => load!(u8, |code| to_double::<float::E4m3>(u32::from(code))),
        Dtype::F8_E5M2 => load!(u8, |code| to_double::<float::E5m2>(u32::from(code))),
        Dtype::F8_E4M3FNUZ => load!(u8, |code| to_double::<float::E4m3Fnuz>(u32::from(code))),
        Dtype::F8_E5M2FNUZ => load!(u8, |code| to_double::<float::E5m2Fnuz>(u32::from(code))),
        Dtype::F8_E4M3B11FNUZ => load!(u8, |code| to_double::<float::E4m3B11Fnuz>(u32::from(code))),
        Dtype::F8_E8M0 => load!(u8, float::from_exponent),
        _ => return None,
    })
}

/// Returns the number as `f64`. If `f64` cannot represent the number, returns the adjacent `f64`
/// whose last bit is set.
fn to_odd(value: u64) -> f64 {
    let excess = (u64::BITS - value.leading_zeros()).saturating_sub(f64::MANTISSA_DIGITS);
    let cut = (1 << excess) - 1;
    let odd = u64::from(value & cut != 0) << excess;
    // At most 53 significant bits remain, so the conversion is exact.
    ((value & !cut) | odd) as f64
}

macro_rules! integer {
    ($type:ty) => {
        store!(|value, lost| {
            // Rounds toward zero. A number out of range becomes the nearest end of the range, and
            // NaN becomes zero.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is counted")]
            let integer = value as $type;
            let whole = value.trunc();
            // The upper end of the range is a power of two minus one. A number is beyond this end
            // if it is at least the power of two.
            let above = whole >= (<$type>::MAX / 2 + 1) as f64 * 2.0;
            if whole.is_nan() || whole < <$type>::MIN as f64 || above {
                lost.range += 1;
            } else if whole != value {
                lost.rounded += 1;
            }
            integer
        })
    };
}

/// Returns the loop that converts `f64` to values of a dtype.
pub(super) fn store(dtype: Dtype) -> Option<Store<f64>> {
    Some(match dtype {
        Dtype::BOOL => store!(|value, lost| {
            let byte = u8::from(value != 0.0);
            lost.range += u64::from(f64::from(byte) != value);
            byte
        }),
        Dtype::U8 => integer!(u8),
        Dtype::I8 => integer!(i8),
        Dtype::U16 => integer!(u16),
        Dtype::I16 => integer!(i16),
        Dtype::U32 => integer!(u32),
        Dtype::I32 => integer!(i32),
        Dtype::U64 => integer!(u64),
        Dtype::I64 => integer!(i64),
        Dtype::F64 => store!(|value, _lost| value),
        Dtype::F32 => single,
        Dtype::F8_E8M0 => store!(|value, lost| float::to_exponent(value, lost)),
        _ => return small_float!(dtype, store_double),
    })
}

/// Uses the processor's conversion instruction, which rounds to nearest, ties to even.
fn single(values: &[f64], bytes: &mut [u8], lost: &mut CastLosses) {
    let (mut infinite, mut zero, mut changed) = (0_u64, 0_u64, 0_u64);
    for (value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
        #[expect(clippy::cast_possible_truncation, reason = "it is counted")]
        let single = *value as f32;
        *bytes = single.to_le_bytes();
        let back = f64::from(single);
        infinite += u64::from(back.is_infinite() & value.is_finite());
        zero += u64::from((back == 0.0) & (*value != 0.0));
        changed += u64::from((back != *value) & !value.is_nan());
    }
    lost.infinite += infinite;
    lost.zero += zero;
    lost.rounded += changed - infinite - zero;
}
