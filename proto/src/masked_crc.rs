//! Masked checksums. TensorFlow rotates each CRC-32C and adds a constant before storing it, because
//! the CRC of data that contains CRCs is a poor checksum.
//!
//! Source: `Mask` and `Unmask` in tensorflow/core/lib/hash/crc32c.h.

const MASK_DELTA: u32 = 0xa282_ead8;

/// Returns the masked form of a CRC-32C, as stored by TensorFlow.
#[must_use]
#[inline]
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Returns the CRC-32C whose masked form is `masked`.
#[must_use]
#[inline]
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_undone() {
        for crc in [0, 1, 0xe306_9283, u32::MAX] {
            assert_eq!(unmask(mask(crc)), crc);
        }
    }

    #[test]
    fn no_bytes_have_the_masked_checksum_that_tensorflow_writes() {
        assert_eq!(mask(crc32c::crc32c(b"")), 0xa282_ead8);
        // TensorFlow wrote a TFRecord frame that contains "abc". The expected values are this
        // frame's checksums for "abc" and for the length of "abc".
        assert_eq!(mask(crc32c::crc32c(b"abc")).to_le_bytes(), [0x6e, 0x57, 0xf1, 0x21]);
        assert_eq!(mask(crc32c::crc32c(&3_u64.to_le_bytes())).to_le_bytes(), [0xb0, 0x99, 0x49, 0x0e]);
    }
}
