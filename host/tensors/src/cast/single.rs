//! Casts through `f32`: between F32, F16 and BF16, and from these dtypes to all other floats. These
//! casts run at memory speed.

use super::float::{self, small_float, store_single};
use super::loops::{Load, Store, load, store};
use super::{BLOCK, CastLosses};
use half::f16;
use half::slice::HalfFloatSliceExt;
use tensorferry_sdk::Dtype;

/// Returns the loop that converts values of a dtype to `f32`.
pub(super) fn load(dtype: Dtype) -> Option<Load<f32>> {
    Some(match dtype {
        Dtype::F32 => load!(f32, |value| value),
        Dtype::BF16 => load!(u16, |bits| f32::from_bits(u32::from(bits) << 16)),
        Dtype::F16 => |bytes, values| {
            let mut halves = [f16::ZERO; BLOCK];
            let halves = &mut halves[..values.len()];
            for (bytes, half) in bytes.as_chunks().0.iter().zip(&mut *halves) {
                *half = f16::from_le_bytes(*bytes);
            }
            halves.convert_to_f32_slice(values);
        },
        _ => return None,
    })
}

/// Returns the loop that converts `f32` to values of a dtype.
pub(super) fn store(dtype: Dtype) -> Option<Store<f32>> {
    Some(match dtype {
        Dtype::F64 => store!(|value, _lost| f64::from(value)),
        Dtype::F32 => store!(|value, _lost| value),
        Dtype::BF16 => brain,
        Dtype::F8_E8M0 => store!(|value, lost| float::to_exponent(f64::from(value), lost)),
        _ => return small_float!(dtype, store_single),
    })
}

/// Converts numbers to BF16. The rare cases are infinities, NaN, the largest numbers, and numbers
/// that BF16 rounds to zero. Blocks that contain no rare cases are converted three times as fast as
/// other blocks.
fn brain(values: &[f32], bytes: &mut [u8], lost: &mut CastLosses) {
    /// If the bits of a number's magnitude are at least this value, the number rounds to infinity.
    const BEYOND: u32 = 0x7f7f_8000;
    let (mut is_rare, mut exact) = (false, 0_u32);
    for (value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
        let bits = value.to_bits();
        let size = bits & (u32::MAX >> 1);
        // True for nonzero numbers whose magnitude is at most half of the smallest BF16. For zero,
        // the subtraction wraps around, so the result is false.
        let vanishes = size.wrapping_sub(1) >> 15 == 0;
        is_rare |= (size >= BEYOND) | vanishes;
        exact += u32::from(bits & 0xffff == 0);
        let [_, _, upper @ ..] = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)).to_le_bytes();
        *bytes = upper;
    }
    if is_rare {
        return store_single::<float::Brain, 2>(values, bytes, lost);
    }
    lost.rounded += values.len() as u64 - u64::from(exact);
}
