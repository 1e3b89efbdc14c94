//! Decompresses a Snappy block as a stream. The `snap` crate needs memory for the whole block.
//!
//! ```text
//! block:   varint: length after decompression; then elements
//! element: a byte, whose lowest two bits are the kind
//!   0: literal; the upper six bits are the length - 1 (60 to 63: that many minus 59 bytes with the length - 1
//!      follow); then the bytes
//!   1: copy; bits 2 to 4 are the length - 4; bits 5 to 7 and a byte are the offset
//!   2, 3: copy; the upper six bits are the length - 1; the offset has 2 or 4 bytes
//! ```
//!
//! Source: `format_description.txt` of google/snappy.

use std::io::{self, Read};
use tensorferry_sdk::Error;

/// Number of bytes to which a copy may refer. Encoders divide their input into fragments of 64 KiB,
/// and a copy never refers to an earlier fragment.
const HISTORY: usize = 64 << 10;
/// Number of bytes that are decompressed at a time.
const READ: usize = 64 << 10;

pub(super) struct SnappyStream<R> {
    input: R,
    /// Number of bytes that have not been decompressed, if the length has been read.
    left: Option<u64>,
    /// Number of bytes of the current literal that have not been read.
    literal: u64,
    /// The history, and bytes that have not been returned.
    window: Vec<u8>,
    /// Position of the first byte that has not been returned.
    at: usize,
}

impl<R: Read> SnappyStream<R> {
    /// Decompresses a block. `input` should be buffered.
    pub(super) fn new(input: R) -> Self {
        Self { input, left: None, literal: 0, window: Vec::new(), at: 0 }
    }

    /// Decompresses until there are enough bytes to return.
    fn fill(&mut self) -> io::Result<()> {
        let mut left = match self.left {
            Some(left) => left,
            None => self.varint()?,
        };
        let kept = self.at.min(HISTORY);
        self.window.drain(..self.at - kept);
        self.at = kept;
        while left > 0 && self.window.len() - self.at < READ {
            let before = self.window.len();
            if self.literal > 0 {
                let len = self.literal.min(READ as u64);
                (&mut self.input).take(len).read_to_end(&mut self.window)?;
                if (self.window.len() - before) as u64 != len {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.literal -= len;
            } else {
                self.element()?;
            }
            left = left.checked_sub((self.window.len() - before) as u64).ok_or_else(damaged)?;
        }
        self.left = Some(left);
        if left == 0 && self.window.len() == self.at && self.input.read(&mut [0])? > 0 {
            return Err(damaged());
        }
        Ok(())
    }

    /// Reads the length of a literal, or performs a copy.
    fn element(&mut self) -> io::Result<()> {
        let tag = self.number(1)?;
        let long = tag >> 2;
        let (len, offset) = match tag & 3 {
            0 => {
                self.literal = 1 + if long < 60 { long } else { self.number(long - 59)? };
                return Ok(());
            }
            1 => (4 + (long & 7), (tag >> 5) << 8 | self.number(1)?),
            2 => (1 + long, self.number(2)?),
            _ => (1 + long, self.number(4)?),
        };
        let offset = usize::try_from(offset).map_err(|_| damaged())?;
        let start = self.window.len().checked_sub(offset).filter(|_| offset > 0).ok_or_else(damaged)?;
        // A copy may overlap its own result.
        for at in start..start + usize::try_from(len).unwrap_or(0) {
            self.window.push(self.window[at]);
        }
        Ok(())
    }

    fn number(&mut self, bytes: u64) -> io::Result<u64> {
        let mut number = [0; 8];
        let bytes = usize::try_from(bytes).unwrap_or(0).min(8);
        self.input.read_exact(&mut number[..bytes])?;
        Ok(u64::from_le_bytes(number))
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.number(1)?;
            value |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged())
    }
}

fn damaged() -> io::Error {
    io::Error::other(Error::malformed("a compressed page is damaged"))
}

impl<R: Read> Read for SnappyStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.window.len() {
            self.fill()?;
        }
        let len = buffer.len().min(self.window.len() - self.at);
        buffer[..len].copy_from_slice(&self.window[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_test_kit::random;

    fn read(block: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        SnappyStream::new(block).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_stream_has_the_bytes_of_the_block() {
        let noise = random::bytes(300_000, 7);
        let words: Vec<u8> = noise[..50_000]
            .iter()
            .flat_map(|byte| b"one two three four".repeat(1 + usize::from(*byte % 2)))
            .collect();
        let mixed = [&noise[..70_000], &words, &noise[..100], &vec![0; 200_000], &noise].concat();
        for bytes in [&b""[..], b"a", &noise, &words, &mixed] {
            let block = snap::raw::Encoder::new().compress_vec(bytes).unwrap();
            assert!(read(&block).unwrap() == bytes, "{} bytes", bytes.len());
            for cut in [1, block.len() / 2, block.len() - 1] {
                assert!(cut >= block.len() || read(&block[..cut]).is_err(), "{cut} of {} bytes", block.len());
            }
            assert!(read(&[&block[..], &[0]].concat()).is_err());
        }
        // Elements of every kind: "abcdefgh", copies of 4, 3 and 2 bytes with offsets of 8, 2 and 1.
        let block = [
            17,
            7 << 2,
            b'a',
            b'b',
            b'c',
            b'd',
            b'e',
            b'f',
            b'g',
            b'h',
            1,
            8,
            2 << 2 | 2,
            2,
            0,
            1 << 2 | 3,
            1,
            0,
            0,
            0,
        ];
        assert_eq!(read(&block).unwrap(), b"abcdefghabcdcdccc");
        // A copy from before the beginning.
        assert!(read(&[4, 0, b'a', 1, 2]).is_err());
    }
}
