//! Blocks with a scale and values of 1 to 8 bits. Some types also have a minimum. Within a byte,
//! the first value is in the lowest bits.

use super::{double_word, each, half, low};

/// Block: `d f16, 16 bytes`. The low nibble of byte `i` contains value `i`, and the high nibble
/// contains value `i + 16`. Value: `d (q - 8)`.
pub(super) fn q4_0(blocks: &[u8], values: &mut [f32]) {
    each::<18, 32>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for i in 0..16 {
            let byte = block[2 + i];
            values[i] = scale * f32::from(low(byte).cast_signed() - 8);
            values[i + 16] = scale * f32::from((byte >> 4).cast_signed() - 8);
        }
    });
}

/// Block: `d f16, m f16, 16 bytes`. Value: `d q + m`.
pub(super) fn q4_1(blocks: &[u8], values: &mut [f32]) {
    each::<20, 32>(blocks, values, |block, values| {
        let (scale, min) = (half(block, 0), half(block, 2));
        for i in 0..16 {
            let byte = block[4 + i];
            values[i] = scale * f32::from(low(byte)) + min;
            values[i + 16] = scale * f32::from(byte >> 4) + min;
        }
    });
}

/// Block: `d f16, fifth bits u32, 16 bytes`. Value: `d (q - 16)`.
pub(super) fn q5_0(blocks: &[u8], values: &mut [f32]) {
    each::<22, 32>(blocks, values, |block, values| {
        let scale = half(block, 0);
        let numbers = fives(double_word(block, 2), &block[6..]);
        for (value, number) in values.iter_mut().zip(numbers) {
            *value = scale * f32::from(number.cast_signed() - 16);
        }
    });
}

/// Block: `d f16, m f16, fifth bits u32, 16 bytes`. Value: `d q + m`.
pub(super) fn q5_1(blocks: &[u8], values: &mut [f32]) {
    each::<24, 32>(blocks, values, |block, values| {
        let (scale, min) = (half(block, 0), half(block, 2));
        let numbers = fives(double_word(block, 4), &block[8..]);
        for (value, number) in values.iter_mut().zip(numbers) {
            *value = scale * f32::from(number) + min;
        }
    });
}

#[inline(always)]
fn fives(fifth: u32, bytes: &[u8]) -> [u8; 32] {
    let mut numbers = [0; 32];
    for i in 0..16 {
        let bit = |i: usize| u8::from(fifth >> i & 1 != 0) << 4;
        numbers[i] = low(bytes[i]) | bit(i);
        numbers[i + 16] = bytes[i] >> 4 | bit(i + 16);
    }
    numbers
}

/// Block: `d f16, 32 signed bytes`. Value: `d q`.
pub(super) fn q8_0(blocks: &[u8], values: &mut [f32]) {
    each::<34, 32>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (value, byte) in values.iter_mut().zip(&block[2..]) {
            *value = scale * f32::from(byte.cast_signed());
        }
    });
}

/// Block: `d f16, 16 bytes`. A set bit is `d`, and a clear bit is `-d`.
pub(super) fn q1_0(blocks: &[u8], values: &mut [f32]) {
    each::<18, 128>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (values, byte) in values.as_chunks_mut::<8>().0.iter_mut().zip(&block[2..]) {
            for (bit, value) in values.iter_mut().enumerate() {
                *value = if byte >> bit & 1 != 0 { scale } else { -scale };
            }
        }
    });
}

/// Block: `d f16, 16 bytes`, each with four values. Value: `d (q - 1)`.
pub(super) fn q2_0(blocks: &[u8], values: &mut [f32]) {
    each::<18, 64>(blocks, values, |block, values| {
        let scale = half(block, 0);
        for (values, byte) in values.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
            for (place, value) in values.iter_mut().enumerate() {
                *value = scale * f32::from((byte >> (2 * place) & 3).cast_signed() - 1);
            }
        }
    });
}
