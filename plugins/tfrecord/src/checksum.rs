//! Masked checksums: TensorFlow stores a CRC-32C rotated and shifted, because the CRC of bytes that
//! hold their own CRC says little about them.
//!
//! Source: `Mask` of tensorflow/core/lib/hash/crc32c.h.

const MASK_DELTA: u32 = 0xa282_ead8;

/// A CRC-32C as TensorFlow stores it.
#[inline]
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The masked CRC-32C of some bytes.
#[inline]
pub(crate) fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_has_the_bytes_that_tensorflow_writes() {
        assert_eq!(masked(b"abc").to_le_bytes(), [0x6e, 0x57, 0xf1, 0x21]);
        assert_eq!(masked(&3_u64.to_le_bytes()).to_le_bytes(), [0xb0, 0x99, 0x49, 0x0e]);
    }
}
