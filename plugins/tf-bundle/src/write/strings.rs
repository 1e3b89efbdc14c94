//! Encodes a string tensor in the form that data files use:
//!
//! ```text
//! varint[N]       the lengths of the elements
//! u32             the masked CRC-32C of the lengths, each as a u32, or as a u64 if it is too large
//! bytes           the concatenated elements
//! ```
//!
//! The CRC in the entry covers the lengths, the four bytes of the stored CRC, and the elements, in
//! this order. Source: `WriteStringTensor` in
//! `tensorflow/core/util/tensor_bundle/tensor_bundle.cc`.

use crate::bundle::append_length;
use tensorferry_proto::masked_crc::mask;
use tensorferry_proto::wire::put_varint;
use tensorferry_sdk::{ByteOrder, ByteSink, Error, Result, crc32c_append};

/// Maximum number of bytes of one tensor to keep in memory.
const WINDOW_BYTES: u64 = 1 << 20;
/// Number of output bytes to buffer before writing them.
const OUTPUT_BYTES: usize = 64 << 10;

/// The length and the unmasked CRC of written strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputText {
    pub(super) len: u64,
    pub(super) crc: u32,
}

/// Writes `count` strings. The logical bytes of a string are its length as a `u64`, followed by its
/// contents. `len` is the total number of logical bytes. `read` fills a buffer with the logical
/// bytes that start at an offset. The logical bytes are read twice, because a bundle stores all
/// lengths before the strings.
pub(super) fn write(
    count: u64,
    len: u64,
    read: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    output: &mut dyn ByteSink,
) -> Result<OutputText> {
    let mut strings = LogicalStrings { read, len, start: 0, window: Vec::new() };
    let mut output = BufferedOutput { output, bytes: Vec::new(), written: 0 };
    let crc_of_lengths = write_lengths(count, &mut strings, &mut output)?;
    let check = mask(crc_of_lengths).to_le_bytes();
    output.append(&check)?;
    let mut crc = crc32c_append(crc_of_lengths, &check);
    let mut offset = 0;
    while offset < len {
        let mut left = strings.length_at(offset)?;
        offset += 8;
        while left > 0 {
            let window = strings.window_at(offset, 1)?;
            let piece = &window[..usize::try_from(left).map_or(window.len(), |left| left.min(window.len()))];
            crc = crc32c_append(crc, piece);
            output.append(piece)?;
            left -= piece.len() as u64;
            offset += piece.len() as u64;
        }
    }
    output.flush()?;
    Ok(OutputText { len: output.written, crc })
}

/// Writes a string that is in memory.
pub(super) fn write_scalar(text: &[u8], output: &mut dyn ByteSink) -> Result<OutputText> {
    let logical = [&(text.len() as u64).to_le_bytes()[..], text].concat();
    let read = |offset: u64, buffer: &mut [u8]| {
        let rest = usize::try_from(offset).ok().and_then(|start| logical.get(start..));
        let part = rest.and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(part.ok_or_else(|| Error::plugin("a read past the end of the string"))?);
        Ok(())
    };
    write(1, logical.len() as u64, &read, output)
}

fn write_lengths(
    count: u64,
    strings: &mut LogicalStrings<'_>,
    output: &mut BufferedOutput<'_>,
) -> Result<u32> {
    let (mut crc, mut offset) = (0, 0);
    let mut encoded = Vec::new();
    for _ in 0..count {
        let len = strings.length_at(offset)?;
        offset += 8 + len;
        crc = append_length(crc, len, ByteOrder::Little);
        encoded.clear();
        put_varint(&mut encoded, len);
        output.append(&encoded)?;
    }
    if offset == strings.len {
        return Ok(crc);
    }
    Err(Error::malformed("the strings of a tensor do not add up to the length of the tensor")
        .expected(format!("{} bytes", strings.len))
        .found(offset))
}

/// The logical bytes of a string tensor, read through a window.
struct LogicalStrings<'a> {
    read: &'a dyn Fn(u64, &mut [u8]) -> Result<()>,
    len: u64,
    start: u64,
    window: Vec<u8>,
}

impl LogicalStrings<'_> {
    /// Returns the string length at `offset`, after checking that the string fits in the tensor.
    fn length_at(&mut self, offset: u64) -> Result<u64> {
        let window = self.window_at(offset, 8)?;
        let len = window.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        let left = self.len - offset - 8;
        if len <= left {
            return Ok(len);
        }
        Err(Error::malformed("a string is longer than its tensor")
            .expected(format!("at most {left} bytes"))
            .found(len))
    }

    /// Returns the bytes that start at `offset`, with a length of at least `min`.
    fn window_at(&mut self, offset: u64, min: u64) -> Result<&[u8]> {
        let held = self.start..self.start + self.window.len() as u64;
        if offset < held.start || offset + min > held.end {
            let len = self.len.saturating_sub(offset).min(WINDOW_BYTES);
            if len < min {
                return Err(Error::malformed("a string tensor ends inside a length")
                    .expected(format!("{min} bytes"))
                    .found(len));
            }
            self.window.resize(usize::try_from(len).unwrap_or(0), 0);
            (self.read)(offset, &mut self.window)?;
            self.start = offset;
        }
        let skip = usize::try_from(offset - self.start).unwrap_or(self.window.len());
        Ok(&self.window[skip..])
    }
}

/// Combines small writes into larger writes, and counts the bytes.
struct BufferedOutput<'a> {
    output: &'a mut dyn ByteSink,
    bytes: Vec<u8>,
    written: u64,
}

impl BufferedOutput<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= OUTPUT_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.output.write(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn write_all(strings: &[&[u8]], cut: usize) -> Result<(Vec<u8>, OutputText)> {
        let logical: Vec<u8> =
            strings.iter().flat_map(|s| [&(s.len() as u64).to_le_bytes()[..], s].concat()).collect();
        let logical = &logical[..logical.len() - cut];
        let read = |offset: u64, buffer: &mut [u8]| {
            let start = usize::try_from(offset).unwrap();
            buffer.copy_from_slice(&logical[start..start + buffer.len()]);
            Ok(())
        };
        let mut bytes = Vec::new();
        let written = write(strings.len() as u64, logical.len() as u64, &read, &mut bytes)?;
        Ok((bytes, written))
    }

    #[test]
    fn one_string_is_the_same_either_way() {
        let mut bytes = Vec::new();
        let written = write_scalar(b"hello", &mut bytes).unwrap();
        assert_eq!(write_all(&[b"hello"], 0).unwrap(), (bytes.clone(), written));
        assert_eq!((bytes[0], &bytes[5..]), (5, &b"hello"[..]));
        assert_eq!(bytes[1..5], mask(crc32c::crc32c(&5_u32.to_le_bytes())).to_le_bytes());
    }

    #[test]
    fn strings_cross_windows() {
        let long = vec![7_u8; (2 << 20) + 3];
        let (bytes, written) = write_all(&[b"", &long, b"ab", b""], 0).unwrap();
        assert_eq!(written.len, bytes.len() as u64);
        assert_eq!(&bytes[..7], [0, 0x83, 0x80, 0x80, 1, 2, 0]);
        assert_eq!(bytes[11..11 + long.len()], long);
        assert!(bytes.ends_with(b"ab"));
        assert_eq!(write_all(&[], 0).unwrap().0, mask(0).to_le_bytes());
    }

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        assert!(write_all(&[b"ab", b"cd"], 1).is_err());
        assert!(write_all(&[b"ab", b"cd"], 7).is_err());
    }
}
