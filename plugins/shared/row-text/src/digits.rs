//! Reads eight digits at a time.

/// A word in which each byte is 1.
const ONES: u64 = u64::MAX / 255;

/// Returns the number that eight digits represent, or `None` if a byte is not a digit.
#[must_use]
#[inline]
pub fn eight_digits(bytes: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(bytes) ^ (0x30 * ONES);
    // Bytes above 9 have a bit in the upper half, or get one if 6 is added.
    if (word | word.wrapping_add(6 * ONES)) & (0xf0 * ONES) != 0 {
        return None;
    }
    // Joins neighboring digits to pairs, pairs to fours, and fours to the number.
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}
