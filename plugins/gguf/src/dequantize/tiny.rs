//! Ternary values and 4-bit floats.

use super::{each, half, low};

/// E2M1 values multiplied by 2, which makes them integers. In this table, both zeros are positive.
const E2M1_TWICE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Block: `48 bytes of five trits each, 4 bytes of four trits each, d f16`. Value: `d (t - 1)`. The
/// trits of a byte are the base-3 digits of byte / 256.
pub(super) fn tq1_0(blocks: &[u8], values: &mut [f32]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    each::<54, 256>(blocks, values, |block, values| {
        let scale = half(block, 52);
        let fill = |values: &mut [f32], bytes: &[u8]| {
            for (values, power) in values.chunks_exact_mut(bytes.len()).zip(POWERS) {
                for (value, byte) in values.iter_mut().zip(bytes) {
                    let trit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
                    *value = scale * (f32::from(trit) - 1.0);
                }
            }
        };
        fill(&mut values[..160], &block[..32]);
        fill(&mut values[160..240], &block[32..48]);
        fill(&mut values[240..], &block[48..52]);
    });
}

/// Block: `64 bytes of four trits each, d f16`. Value: `d (t - 1)`.
pub(super) fn tq2_0(blocks: &[u8], values: &mut [f32]) {
    each::<66, 256>(blocks, values, |block, values| {
        let scale = half(block, 64);
        for (place, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (bytes, shift) = (&block[place / 4 * 32..][..32], place % 4 * 2);
            for (value, byte) in values.iter_mut().zip(bytes) {
                *value = scale * f32::from((byte >> shift & 3).cast_signed() - 1);
            }
        }
    });
}

/// Block: `e u8, 16 bytes`. Value: `2^(e - 127)` times an E2M1 number. The nibbles have the same
/// order as in `Q4_0`.
pub(super) fn mxfp4(blocks: &[u8], values: &mut [f32]) {
    each::<17, 32>(blocks, values, |block, values| {
        // Use half the power of two, because the table contains doubled values. As in ggml, the
        // result may overflow to infinity.
        let exponent = u32::from(block[0]);
        let scale = f32::from_bits(if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 });
        fill_e2m1(scale, &block[1..], values);
    });
}

/// Block: `four scales of unsigned E4M3, 32 bytes`. Each scale applies to 16 values, which take 8
/// bytes.
pub(super) fn nvfp4(blocks: &[u8], values: &mut [f32]) {
    each::<36, 64>(blocks, values, |block, values| {
        for (place, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            fill_e2m1(half_of_e4m3(block[place]), &block[4 + 8 * place..][..8], values);
        }
    });
}

/// Decodes all low nibbles, and then all high nibbles.
#[inline(always)]
fn fill_e2m1(scale: f32, bytes: &[u8], values: &mut [f32]) {
    let (lows, highs) = values.split_at_mut(bytes.len());
    for ((one, other), byte) in lows.iter_mut().zip(highs).zip(bytes) {
        *one = scale * f32::from(E2M1_TWICE[usize::from(low(*byte))]);
        *other = scale * f32::from(E2M1_TWICE[usize::from(byte >> 4)]);
    }
}

/// Returns half of an unsigned E4M3 number. As in ggml and gguf-py, the NaN 0x7f is decoded as
/// zero, but 0xff is not.
fn half_of_e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (bits >> 3 & 15, bits & 7);
    match exponent {
        _ if bits == 0x7f => 0.0,
        0 => f32::from(mantissa) / 1024.0,
        _ => f32::from_bits((u32::from(exponent) + 119) << 23 | u32::from(mantissa) << 20),
    }
}
