//! A frame is the stored form of a record in a TFRecord file.
//!
//! ```text
//! u64 LE   the length of the data
//! u32 LE   the masked CRC-32C of the eight bytes of the length
//! ...      the data
//! u32 LE   the masked CRC-32C of the data
//! ```
//!
//! A file has neither magic bytes nor an end marker. Source:
//! tensorflow/core/lib/io/record_writer.h.

mod fault;
mod walk;

pub(crate) use fault::{Fault, FaultKind};
pub(crate) use walk::{Checks, Frames};

use tensorferry_proto::masked_crc::mask;
use tensorferry_sdk::crc32c;

/// Number of bytes in the length and its checksum.
pub(crate) const HEADER: usize = 12;
/// Number of bytes that a frame adds to the data.
pub(crate) const OVERHEAD: u64 = 16;
/// Number of bytes in the data's checksum.
pub(crate) const FOOTER: usize = 4;

#[inline]
fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c(bytes))
}

/// Returns the length in a header if the length's checksum is valid.
#[inline]
pub(crate) fn length(header: &[u8]) -> Option<u64> {
    let (length, rest) = header.split_first_chunk::<8>()?;
    let stored = u32::from_le_bytes(*rest.first_chunk()?);
    (masked(length) == stored).then_some(u64::from_le_bytes(*length))
}

/// Returns the header of a record of `length` bytes.
pub(crate) fn header(length: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&length.to_le_bytes());
    let checksum = masked(&header[..8]);
    header[8..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Appends the frame of a record.
pub(crate) fn append(output: &mut Vec<u8>, data: &[u8]) {
    output.extend_from_slice(&header(data.len() as u64));
    output.extend_from_slice(data);
    output.extend_from_slice(&masked(data).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_bytes_that_tensorflow_writes() {
        let mut output = Vec::new();
        append(&mut output, b"abc");
        let golden =
            [3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, b'a', b'b', b'c', 0x6e, 0x57, 0xf1, 0x21];
        assert_eq!(output, golden);
        assert_eq!(length(&output), Some(3));
        assert_eq!(length(&output[..11]), None);
        output[0] ^= 1;
        assert_eq!(length(&output), None);
    }
}
