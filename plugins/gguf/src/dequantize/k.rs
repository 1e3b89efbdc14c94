//! The K types. A block contains 256 values in groups of 16 or 32, and each group has a scale of a
//! few bits.

use super::{each, half, low};

/// Block: `16 scales and minima, 64 bytes, d f16, dmin f16`. Value: `d low(s) q - dmin high(s)`. A
/// group has 16 values.
pub(super) fn q2(blocks: &[u8], values: &mut [f32]) {
    each::<84, 256>(blocks, values, |block, values| {
        let (scale, min) = (half(block, 80), half(block, 82));
        for (group, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (scale, min) = (scale * f32::from(low(block[group])), min * f32::from(block[group] >> 4));
            let (bytes, shift) = twos(group);
            for (value, byte) in values.iter_mut().zip(&block[16 + bytes..][..16]) {
                *value = scale * f32::from(byte >> shift & 3) - min;
            }
        }
    });
}

/// Returns the first byte and the bit shift for a group of 16 two-bit values.
#[inline(always)]
fn twos(group: usize) -> (usize, usize) {
    (group / 8 * 32 + group % 2 * 16, group / 2 % 4 * 2)
}

/// Block: `32 bytes of third bits, 64 bytes, 12 bytes of scales, d f16`. Value: `d (s - 32) q`. If
/// the third bit is clear, q is reduced by 4.
pub(super) fn q3(blocks: &[u8], values: &mut [f32]) {
    each::<110, 256>(blocks, values, |block, values| {
        let (scale, scales) = (half(block, 108), &block[96..108]);
        for (group, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let few = if group < 8 { low(scales[group]) } else { scales[group - 8] >> 4 };
            let six = few | (scales[8 + group % 4] >> (2 * (group / 4)) & 3) << 4;
            let scale = scale * f32::from(six.cast_signed() - 32);
            let (bytes, shift) = twos(group);
            let thirds = &block[group % 2 * 16..][..16];
            for ((value, byte), third) in values.iter_mut().zip(&block[32 + bytes..][..16]).zip(thirds) {
                let third = third >> (group / 2) & 1;
                *value = scale * f32::from((byte >> shift & 3 | third << 2).cast_signed() - 4);
            }
        }
    });
}

/// Returns the scale and the minimum of a group of 32 values. Each of the two takes six bits, and
/// the scales and minima of all groups are packed into 12 bytes.
#[inline(always)]
fn sixes(scales: &[u8], group: usize) -> (f32, f32) {
    let (scale, min) = if group < 4 {
        (scales[group] & 63, scales[group + 4] & 63)
    } else {
        let of_both = scales[group + 4];
        (low(of_both) | scales[group - 4] >> 6 << 4, of_both >> 4 | scales[group] >> 6 << 4)
    };
    (f32::from(scale), f32::from(min))
}

/// Block: `d f16, dmin f16, 12 bytes of scales and minima, 128 bytes`. Value: `d s q - dmin m`.
pub(super) fn q4(blocks: &[u8], values: &mut [f32]) {
    each::<144, 256>(blocks, values, |block, values| {
        let (scale, min) = (half(block, 0), half(block, 2));
        for (pair, values) in values.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let (first, second) = (sixes(&block[4..16], 2 * pair), sixes(&block[4..16], 2 * pair + 1));
            let (scales, minima) = ((scale * first.0, scale * second.0), (min * first.1, min * second.1));
            let (lows, highs) = values.split_at_mut(32);
            for ((one, other), byte) in lows.iter_mut().zip(highs).zip(&block[16 + 32 * pair..][..32]) {
                *one = scales.0 * f32::from(low(*byte)) - minima.0;
                *other = scales.1 * f32::from(byte >> 4) - minima.1;
            }
        }
    });
}

/// Block: the same as for [`q4`], with 32 additional bytes of fifth bits before the low nibbles.
pub(super) fn q5(blocks: &[u8], values: &mut [f32]) {
    each::<176, 256>(blocks, values, |block, values| {
        let (scale, min) = (half(block, 0), half(block, 2));
        for (group, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (of_scale, of_least) = sixes(&block[4..16], group);
            let (scale, min) = (scale * of_scale, min * of_least);
            let (bytes, fifths) = (&block[48 + group / 2 * 32..][..32], &block[16..48]);
            for ((value, byte), fifth) in values.iter_mut().zip(bytes).zip(fifths) {
                let number = byte >> (group % 2 * 4) & 15 | (fifth >> group & 1) << 4;
                *value = scale * f32::from(number) - min;
            }
        }
    });
}

/// Block: `128 bytes, 64 bytes of upper bits, 16 signed scales, d f16`. Value: `d s (q - 32)`.
pub(super) fn q6(blocks: &[u8], values: &mut [f32]) {
    each::<210, 256>(blocks, values, |block, values| {
        let scale = half(block, 208);
        for (group, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = scale * f32::from(block[192 + group].cast_signed());
            let quarter = group / 2 % 4;
            let lows = &block[group / 8 * 64 + quarter % 2 * 32 + group % 2 * 16..][..16];
            let (uppers, shift) = twos(group);
            for ((value, byte), upper) in values.iter_mut().zip(lows).zip(&block[128 + uppers..][..16]) {
                let number = byte >> (quarter / 2 * 4) & 15 | (upper >> shift & 3) << 4;
                *value = scale * f32::from(number.cast_signed() - 32);
            }
        }
    });
}

/// Block: `d f32, 256 signed bytes, 16 sums`. Value: `d q`.
pub(super) fn q8(blocks: &[u8], values: &mut [f32]) {
    each::<292, 256>(blocks, values, |block, values| {
        let scale = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        for (value, byte) in values.iter_mut().zip(&block[4..260]) {
            *value = scale * f32::from(byte.cast_signed());
        }
    });
}
