//! The codec of encoded chunks. Each byte is combined with the previous byte (xor). Runs of equal
//! bytes then become pairs of a count (1 to 255) and a byte.

use tensorferry_sdk::{ByteSink, Error, Result};

/// The maximum number of bytes that one pair encodes.
pub(crate) const MAX_OF_PAIR: u64 = 255;

/// The number of decoded bytes that are written at a time.
const PIECE: usize = 64 << 10;

/// Encodes a whole chunk.
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut encoded: Vec<u8> = Vec::new();
    let mut before = 0;
    for &byte in bytes {
        let change = byte ^ before;
        before = byte;
        match &mut *encoded {
            [.., count, last] if *last == change && *count < u8::MAX => *count += 1,
            _ => encoded.extend([1, change]),
        }
    }
    encoded
}

/// Decodes a chunk in pieces.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    before: u8,
    /// The count of a pair whose byte is in the next piece, if the last piece ended between the
    /// count and the byte.
    count: Option<u8>,
    decoded: Vec<u8>,
}

impl Decoder {
    /// Decodes the next piece.
    pub(crate) fn write(&mut self, encoded: &[u8], output: &mut dyn ByteSink) -> Result<()> {
        for &byte in encoded {
            let Some(count) = self.count.take() else {
                self.count = Some(byte);
                continue;
            };
            for _ in 0..count {
                self.before ^= byte;
                self.decoded.push(self.before);
            }
            if self.decoded.len() >= PIECE {
                output.write(&self.decoded)?;
                self.decoded.clear();
            }
        }
        Ok(())
    }

    /// Writes the remaining bytes.
    pub(crate) fn finish(self, output: &mut dyn ByteSink) -> Result<()> {
        if self.count.is_some() {
            return Err(Error::malformed("an encoded chunk ends in the middle of a run"));
        }
        output.write(&self.decoded)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn chunks_come_back_whatever_the_pieces() {
        let bytes: Vec<u8> =
            (0..100_000_u32).map(|i| if i < 70_000 { 7 } else { i.to_le_bytes()[0] }).collect();
        let encoded = encode(&bytes);
        assert!(encoded.len() < bytes.len());
        for piece in [1, 3, 1000, encoded.len()] {
            let mut decoder = Decoder::default();
            let mut decoded = Vec::new();
            for part in encoded.chunks(piece) {
                decoder.write(part, &mut decoded).unwrap();
            }
            decoder.finish(&mut decoded).unwrap();
            assert!(decoded == bytes);
        }
        assert!(encode(&[]).is_empty());
    }

    #[test]
    fn half_a_run_is_malformed() {
        let mut decoder = Decoder::default();
        decoder.write(&[3], &mut Vec::new()).unwrap();
        assert!(decoder.finish(&mut Vec::new()).is_err());
    }
}
