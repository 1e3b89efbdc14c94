//! The IQ types. All types except `IQ4_NL` and `IQ4_XS` look up 4 or 8 values at a time in a grid.
//! The signs are stored separately, either as a byte, or as seven bits whose parity determines the
//! eighth sign.

use super::{double_word, each, grid, half, low, word};

/// The values of `IQ4_NL` and `IQ4_XS` before scaling.
const STEPS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Offset that `IQ1_S` and `IQ1_M` add to or subtract from the values in their grid.
const DELTA: f32 = 0.125;

/// Multiplies a grid entry by a scale and applies the signs.
#[inline(always)]
fn fill<const N: usize>(values: &mut [f32], scale: f32, entry: &[i8; N], signs: u8) {
    for (place, (value, number)) in values.iter_mut().zip(entry).enumerate() {
        let size = scale * f32::from(*number);
        *value = f32::from_bits(size.to_bits() ^ u32::from(signs >> place & 1) << 31);
    }
}

/// Adds [`DELTA`] to an entry of the `IQ1` grid, or subtracts it, and multiplies the result by a
/// scale.
#[inline(always)]
fn fill_shifted(values: &mut [f32], scale: f32, index: usize, is_down: bool) {
    let delta = if is_down { -DELTA } else { DELTA };
    for (value, number) in values.iter_mut().zip(&grid::IQ1[index]) {
        *value = scale * (f32::from(*number) + delta);
    }
}

/// Extracts seven sign bits from a word and adds the eighth. The eighth bit is set if needed to
/// make the number of set bits even.
fn signs(word: u32, place: usize) -> u8 {
    let seven = (word >> (7 * place)).to_le_bytes()[0] & 127;
    if seven.count_ones() % 2 == 1 { seven | 128 } else { seven }
}

/// Block: `d f16`, then per 32 values `four indices, u32` with signs and a scale.
pub(super) fn iq2_xxs(blocks: &[u8], values: &mut [f32]) {
    let grid = &**grid::IQ2_XXS;
    each::<66, 256>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (group, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (indices, word) = (&block[2 + 8 * group..][..4], double_word(block, 6 + 8 * group));
            let scale = scale * (0.5 + four_bits(word >> 28)) * 0.25;
            for (part, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                fill(values, scale, &grid[usize::from(indices[part])], signs(word, part));
            }
        }
    });
}

/// Block: `d f16, 32 words`, each with an index and signs, then `8 bytes of scales`.
pub(super) fn iq2_xs(blocks: &[u8], values: &mut [f32]) {
    let grid = &**grid::IQ2_XS;
    each::<74, 256>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (place, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = word(block, 2 + 2 * place);
            let scale = scale * (0.5 + halves_of(block[66 + place / 4], place)) * 0.25;
            fill(values, scale, &grid[usize::from(word & 511)], signs((word >> 9).into(), 0));
        }
    });
}

/// Block: `d f16, 32 indices, 32 bytes of signs, 8 bytes of upper bits, 8 bytes of scales`.
pub(super) fn iq2_s(blocks: &[u8], values: &mut [f32]) {
    let grid = &**grid::IQ2_S;
    each::<82, 256>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (place, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let upper = usize::from(block[66 + place / 4] >> (2 * (place % 4)) & 3);
            let scale = scale * (0.5 + halves_of(block[74 + place / 4], place)) * 0.25;
            fill(values, scale, &grid[usize::from(block[2 + place]) | upper << 8], block[34 + place]);
        }
    });
}

/// Returns one of the two scales in a byte. `place` is the index of a group of 8 values. The low
/// half of the byte is the scale of the first 16 of 32 values, and the high half is the scale of
/// the other 16.
fn halves_of(byte: u8, place: usize) -> f32 {
    f32::from(if place % 4 < 2 { low(byte) } else { byte >> 4 })
}

fn four_bits(bits: u32) -> f32 {
    f32::from(bits.to_le_bytes()[0] & 15)
}

/// Block: `d f16, 64 indices`, then per 32 values a `u32` with signs and a scale.
pub(super) fn iq3_xxs(blocks: &[u8], values: &mut [f32]) {
    let grid = &**grid::IQ3_XXS;
    each::<98, 256>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (place, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = double_word(block, 66 + place / 4 * 4);
            let scale = scale * (0.5 + four_bits(word >> 28)) * 0.5;
            let signs = signs(word, place % 4);
            let (first, second) = values.split_at_mut(4);
            fill(first, scale, &grid[usize::from(block[2 + 2 * place])], signs);
            fill(second, scale, &grid[usize::from(block[3 + 2 * place])], signs >> 4);
        }
    });
}

/// Block: `d f16, 64 indices, 8 bytes of ninth bits, 32 bytes of signs, 4 bytes of scales`.
pub(super) fn iq3_s(blocks: &[u8], values: &mut [f32]) {
    let grid = &**grid::IQ3_S;
    each::<110, 256>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (place, values) in values.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let (group, part) = (place / 8, place % 8);
            let ninth = usize::from(block[66 + group] >> part & 1) << 8;
            let scale = scale * (1.0 + 2.0 * f32::from(block[106 + group / 2] >> (group % 2 * 4) & 15));
            let signs = block[74 + place / 2] >> (place % 2 * 4);
            fill(values, scale, &grid[usize::from(block[2 + place]) | ninth], signs);
        }
    });
}

/// Block: `d f16, 32 indices`, then per 32 values a word with upper bits, a scale and a direction.
pub(super) fn iq1_s(blocks: &[u8], values: &mut [f32]) {
    each::<50, 256>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (place, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = word(block, 34 + place / 4 * 2);
            let scale = scale * (2.0 * f32::from(word >> 12 & 7) + 1.0);
            let upper = usize::from(word >> (3 * (place % 4)) & 7) << 8;
            fill_shifted(values, scale, usize::from(block[2 + place]) | upper, word >> 15 != 0);
        }
    });
}

/// Block: `32 indices, 16 bytes` of upper bits and directions, `4 words` of scales. The top 4 bits
/// of the four words form `d f16`.
pub(super) fn iq1_m(blocks: &[u8], values: &mut [f32]) {
    each::<56, 256>(blocks, values, |block, values| {
        let scales = [48, 50, 52, 54].map(|at| word(block, at));
        let bits = (0..4).fold(0, |bits, place| bits | scales[place] >> 12 << (4 * place));
        let scale = half(&bits.to_le_bytes(), 0);
        for (place, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let (group, part) = (place / 4, place % 4);
            let number = block[32 + place / 2] >> (4 * (place % 2)) & 15;
            let three = scales[group / 2] >> (6 * (group % 2) + 3 * (part / 2)) & 7;
            let scale = scale * (2.0 * f32::from(three) + 1.0);
            let index = usize::from(block[place]) | usize::from(number & 7) << 8;
            fill_shifted(values, scale, index, number & 8 != 0);
        }
    });
}

/// Block: `d f16, 16 bytes`. The nibbles have the same order as in `Q4_0`.
pub(super) fn iq4_nl(blocks: &[u8], values: &mut [f32]) {
    each::<18, 32>(blocks, values, |block, values| fill_steps(half(block, 0), &block[2..], values));
}

/// Block: `d f16, u16 of upper bits, 4 bytes of scales, 128 bytes`. Value: `d (s - 32)` times an
/// entry of [`STEPS`].
pub(super) fn iq4_xs(blocks: &[u8], values: &mut [f32]) {
    each::<136, 256>(blocks, values, |block, values| {
        let (scale, uppers) = (half(block, 0), word(block, 2));
        for (group, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let lower = block[4 + group / 2] >> (group % 2 * 4) & 15;
            let six = lower | ((uppers >> (2 * group) & 3) as u8) << 4;
            let scale = scale * f32::from(six.cast_signed() - 32);
            fill_steps(scale, &block[8 + 16 * group..][..16], values);
        }
    });
}

#[inline(always)]
fn fill_steps(scale: f32, bytes: &[u8], values: &mut [f32]) {
    let (lows, highs) = values.split_at_mut(bytes.len());
    for ((one, other), byte) in lows.iter_mut().zip(highs).zip(bytes) {
        *one = scale * f32::from(STEPS[usize::from(low(*byte))]);
        *other = scale * f32::from(STEPS[usize::from(byte >> 4)]);
    }
}
