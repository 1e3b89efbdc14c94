//! Compresses pieces independently. The concatenated pieces form a single valid stream.
//!
//! | Codec | A piece | Around the pieces |
//! |---|---|---|
//! | gzip | a member | |
//! | zlib | deflated blocks, none of them final, padded to a byte | the header; an empty final block and the checksum of all data |
//! | snappy | blocks of at most 256 KiB before compression | |

use crate::codec::Codec;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, FlushCompress, Status};
use std::io::Write;
use tensorferry_sdk::records::PlacedPiece;
use tensorferry_sdk::{ByteSink, Error, Result};

/// The header of a zlib stream: deflate with a window of 32 KiB and the default level.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x9c];
/// An empty final block, encoded with fixed Huffman codes.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// Maximum length of a block that TensorFlow can read back.
const SNAPPY_BLOCK: usize = 256 << 10;
/// The prime of Adler-32.
const ADLER: u64 = 65_521;

#[derive(Debug, Clone, Copy)]
pub(super) struct Compressor {
    pub(super) codec: Codec,
    pub(super) level: u32,
}

impl Compressor {
    /// Returns the bytes that precede all pieces.
    pub(super) fn head(self) -> &'static [u8] {
        if self.codec == Codec::Zlib { &ZLIB_HEADER } else { &[] }
    }

    /// Writes a piece, and returns the note that `tail` needs for this piece.
    pub(super) fn piece(self, bytes: &[u8], output: &mut dyn ByteSink) -> Result<Vec<u8>> {
        match self.codec {
            Codec::None => {
                output.write(bytes)?;
                Ok(Vec::new())
            }
            Codec::Gzip => {
                output.write(&self.gzip(bytes)?)?;
                Ok(Vec::new())
            }
            Codec::Zlib => {
                output.write(&self.deflated(bytes)?)?;
                let mut adler = simd_adler32::Adler32::new();
                adler.write(bytes);
                Ok([&adler.finish().to_le_bytes()[..], &(bytes.len() as u64).to_le_bytes()].concat())
            }
            Codec::Snappy => {
                for block in bytes.chunks(SNAPPY_BLOCK) {
                    let block = snap::raw::Encoder::new().compress_vec(block).map_err(failed)?;
                    let len = u32::try_from(block.len()).map_err(failed)?;
                    output.write(&len.to_be_bytes())?;
                    output.write(&block)?;
                }
                Ok(Vec::new())
            }
        }
    }

    /// Returns the bytes that follow all pieces.
    pub(super) fn tail(self, pieces: &[PlacedPiece]) -> Result<Vec<u8>> {
        match self.codec {
            // A gzip file needs at least one member.
            Codec::Gzip if pieces.is_empty() => self.gzip(&[]),
            Codec::Zlib => {
                let mut adler = 1;
                for piece in pieces {
                    let (part, len) =
                        parse_note(&piece.note).ok_or_else(|| Error::plugin("invalid note of a piece"))?;
                    adler = joined(adler, part, len);
                }
                Ok([&LAST_BLOCK[..], &adler.to_be_bytes()].concat())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn gzip(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(self.level));
        encoder.write_all(bytes)?;
        Ok(encoder.finish()?)
    }

    fn deflated(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut deflate = Compress::new(Compression::new(self.level), false);
        let mut output = Vec::with_capacity(bytes.len() / 2 + 64);
        loop {
            // `total_in` does not exceed the length of the input, so it fits.
            let taken = usize::try_from(deflate.total_in()).map_err(failed)?;
            output.reserve(64 << 10);
            let status =
                deflate.compress_vec(&bytes[taken..], &mut output, FlushCompress::Sync).map_err(failed)?;
            // The flush is complete if the output still has unused capacity.
            if status == Status::BufError
                || (deflate.total_in() == bytes.len() as u64 && output.len() < output.capacity())
            {
                return Ok(output);
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::plugin(format!("compression failed: {error}"))
}

/// Parses the checksum and the length from the note of a piece.
fn parse_note(note: &[u8]) -> Option<(u32, u64)> {
    let (adler, len) = note.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*adler), u64::from_le_bytes(len.try_into().ok()?)))
}

/// Returns the Adler-32 checksum of two concatenated byte strings. `len` is the length of the
/// second byte string.
fn joined(first: u32, second: u32, len: u64) -> u32 {
    let halves = |adler: u32| (u64::from(adler & 0xffff), u64::from(adler >> 16));
    let ((low1, high1), (low2, high2)) = (halves(first), halves(second));
    let len = len % ADLER;
    // The low half of each checksum starts at 1, but the combined checksum must include only one
    // such 1.
    let low = (low1 + low2 + ADLER - 1) % ADLER;
    let high = (high1 + high2 + len * ((low1 + ADLER - 1) % ADLER)) % ADLER;
    // Both halves are less than 2^16.
    u32::try_from(high << 16 | low).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::io::Read;

    fn written(codec: Codec, pieces: &[&[u8]]) -> Vec<u8> {
        let compressor = Compressor { codec, level: 6 };
        let mut file = compressor.head().to_vec();
        let mut placed = Vec::new();
        for piece in pieces {
            let offset = file.len() as u64;
            let note = compressor.piece(piece, &mut file).unwrap();
            placed.push(PlacedPiece { offset, len: file.len() as u64 - offset, rows: 1, note });
        }
        file.extend(compressor.tail(&placed).unwrap());
        file
    }

    #[test]
    fn pieces_are_one_stream_to_every_reader() {
        let long: Vec<u8> =
            (0_u32..300_000).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let cases: [&[&[u8]]; 5] =
            [&[], &[b""], &[b"abc"], &[b"abc", b"", b"def"], &[&long, &long[..70_000], b"x"]];
        for pieces in cases {
            let whole = pieces.concat();
            let mut inflated = Vec::new();
            flate2::read::ZlibDecoder::new(&written(Codec::Zlib, pieces)[..])
                .read_to_end(&mut inflated)
                .unwrap();
            assert_eq!(inflated, whole);
            inflated.clear();
            flate2::read::MultiGzDecoder::new(&written(Codec::Gzip, pieces)[..])
                .read_to_end(&mut inflated)
                .unwrap();
            assert_eq!(inflated, whole);
        }
    }

    #[test]
    fn checksums_are_joined() {
        let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let adler = |bytes: &[u8]| simd_adler32::adler32(&bytes);
        for at in [0, 1, 65_521, 65_522, 199_999, 200_000] {
            let (first, second) = bytes.split_at(at);
            assert_eq!(joined(adler(first), adler(second), second.len() as u64), adler(&bytes), "{at}");
        }
    }
}
