//! Casts through `f32`: between F32, F16 and BF16 and to all other floats, at the memory's speed.

use super::BLOCK;
use super::float::{self, Small, from_single};
use super::lost::Lost;
use half::f16;
use half::slice::HalfFloatSliceExt;
use tensorferry_sdk::Dtype;

/// Reads as many values as there is room for; they are exact.
pub(super) type Load = fn(&[u8], &mut [f32]);

/// Writes values, and counts what they lose.
pub(super) type Store = fn(&[f32], &mut [u8], &mut Lost);

/// How values of a dtype become `f32`.
pub(super) fn load(dtype: Dtype) -> Option<Load> {
    Some(match dtype {
        Dtype::F32 => |bytes, values| {
            for (bytes, value) in bytes.as_chunks().0.iter().zip(values) {
                *value = f32::from_le_bytes(*bytes);
            }
        },
        Dtype::BF16 => |bytes, values| {
            for (bytes, value) in bytes.as_chunks().0.iter().zip(values) {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
            }
        },
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

/// How values of a dtype are made of `f32`.
pub(super) fn store(dtype: Dtype) -> Option<Store> {
    Some(match dtype {
        Dtype::F64 => |values, bytes, _| {
            for (value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
                *bytes = f64::from(*value).to_le_bytes();
            }
        },
        Dtype::F32 => |values, bytes, _| {
            for (value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
                *bytes = value.to_le_bytes();
            }
        },
        Dtype::F16 => small::<float::Half, 2>,
        Dtype::BF16 => brain,
        Dtype::F8_E4M3 => small::<float::E4m3, 1>,
        Dtype::F8_E5M2 => small::<float::E5m2, 1>,
        Dtype::F8_E4M3FNUZ => small::<float::E4m3Fnuz, 1>,
        Dtype::F8_E5M2FNUZ => small::<float::E5m2Fnuz, 1>,
        Dtype::F8_E4M3B11FNUZ => small::<float::E4m3B11Fnuz, 1>,
        Dtype::F8_E8M0 => |values, bytes, lost| {
            for (value, byte) in values.iter().zip(bytes) {
                *byte = float::to_exponent(f64::from(*value), lost);
            }
        },
        _ => return None,
    })
}

/// BF16, three times as fast where no number is near what a block seldom has: infinities, NaN, the
/// largest, and those that BF16 is too coarse for.
fn brain(values: &[f32], bytes: &mut [u8], lost: &mut Lost) {
    /// From here on, what is rounded is infinite.
    const BEYOND: u32 = 0x7f7f_8000;
    let (mut is_rare, mut exact) = (false, 0_u32);
    for (value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
        let bits = value.to_bits();
        let size = bits & (u32::MAX >> 1);
        // At most half of the least BF16, but not zero, which wraps around.
        let vanishes = size.wrapping_sub(1) >> 15 == 0;
        is_rare |= (size >= BEYOND) | vanishes;
        exact += u32::from(bits & 0xffff == 0);
        let [_, _, upper @ ..] = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)).to_le_bytes();
        *bytes = upper;
    }
    if is_rare {
        return small::<float::Brain, 2>(values, bytes, lost);
    }
    lost.rounded += values.len() as u64 - u64::from(exact);
}

fn small<F: Small, const BYTES: usize>(values: &[f32], bytes: &mut [u8], lost: &mut Lost) {
    let (mut beyond, mut zero, mut rounded) = (0, 0, 0);
    for (value, bytes) in values.iter().zip(bytes.as_chunks_mut::<BYTES>().0) {
        let small = from_single::<F>(*value);
        bytes.copy_from_slice(&small.code.to_le_bytes()[..BYTES]);
        beyond += small.beyond;
        zero += small.zero;
        rounded += small.rounded;
    }
    float::count::<F>(lost, beyond.into(), zero.into(), rounded.into());
}
