//! Compression of whole shards. The index contains the name of the codec, a colon and the level,
//! such as `zstd:7`. The codec's name is also the suffix of the shard's file name.

use std::io::{self, BufReader, Read, Write};
use tensorferry_sdk::{Error, Result};

/// Maximum compression ratio of a snappy block. A copy of 64 bytes takes 3 bytes.
const MAX_SNAPPY_RATIO: u64 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// RFC 8878.
    Zstd,
    /// RFC 1952.
    Gzip,
    Bzip2,
    /// RFC 7932.
    Brotli,
    /// A single snappy block, without frames.
    Snappy,
}

impl Codec {
    pub(crate) const ALL: [Self; 5] = [Self::Zstd, Self::Gzip, Self::Bzip2, Self::Brotli, Self::Snappy];

    /// Returns the name of the codec in the index, which is also the file name suffix.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gz",
            Self::Bzip2 => "bz2",
            Self::Brotli => "br",
            Self::Snappy => "snappy",
        }
    }

    /// Returns the supported compression levels.
    pub(crate) fn levels(self) -> Option<std::ops::RangeInclusive<u32>> {
        match self {
            Self::Zstd => Some(1..=22),
            Self::Gzip => Some(0..=9),
            Self::Bzip2 => Some(1..=9),
            Self::Brotli => Some(0..=11),
            Self::Snappy => None,
        }
    }

    /// Parses the `compression` entry of an index.
    pub(crate) fn of(compression: &str) -> Result<Self> {
        let word = compression.split_once(':').map_or(compression, |(word, _)| word);
        let unknown = || Error::unsupported("an unknown compression").found(format!("{compression:?}"));
        Self::ALL.into_iter().find(|codec| codec.word() == word).ok_or_else(unknown)
    }

    /// Returns a reader that decompresses `input`, which has `len` compressed bytes. The other
    /// arguments apply only to snappy: `max` is the decompressed length in the index, and `held` is
    /// the maximum number of bytes in memory.
    pub(crate) fn decompressed(
        self,
        input: impl Read + Send + 'static,
        len: u64,
        max: u64,
        held: u64,
    ) -> io::Result<Box<dyn Read + Send>> {
        let input = BufReader::with_capacity(256 << 10, input);
        Ok(match self {
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
            Self::Brotli => Box::new(brotli::Decompressor::new(input, 64 << 10)),
            Self::Snappy => Box::new(io::Cursor::new(snappy_block(input, len, max, held)?)),
        })
    }

    pub(crate) fn compress(self, bytes: &[u8], level: Option<u32>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Zstd => {
                out = zstd::bulk::compress(bytes, i32::try_from(level.unwrap_or(3)).unwrap_or(3))?;
            }
            Self::Gzip => {
                let level = flate2::Compression::new(level.unwrap_or(9));
                flate2::bufread::GzEncoder::new(bytes, level).read_to_end(&mut out)?;
            }
            Self::Bzip2 => {
                let level = bzip2::Compression::new(level.unwrap_or(9));
                bzip2::bufread::BzEncoder::new(bytes, level).read_to_end(&mut out)?;
            }
            Self::Brotli => {
                let mut writer = brotli::CompressorWriter::new(&mut out, 64 << 10, level.unwrap_or(11), 22);
                writer.write_all(bytes)?;
            }
            Self::Snappy => {
                let compressed = snap::raw::Encoder::new().compress_vec(bytes);
                out = compressed.map_err(|error| Error::unsupported(error.to_string()))?;
            }
        }
        Ok(out)
    }
}

/// Decompresses a snappy block. A snappy block cannot be streamed, so the block and its content
/// must fit into memory. Checks the length in the block's header first.
fn snappy_block(mut input: impl Read, len: u64, max: u64, held: u64) -> io::Result<Vec<u8>> {
    let check = |together: u64| {
        if together <= held {
            return Ok(());
        }
        let error = Error::limit("a snappy block is too long to hold in memory")
            .hint("pass --limit header_bytes=N to allow more");
        let expected = format!("at most {held} bytes including its content");
        Err(io::Error::other(error.expected(expected).found(together)))
    };
    check(len)?;
    let mut block = Vec::new();
    input.read_to_end(&mut block)?;
    let claimed = snap::raw::decompress_len(&block).map_err(io::Error::other)? as u64;
    check(len.saturating_add(claimed))?;
    if claimed > max || claimed > len.saturating_mul(MAX_SNAPPY_RATIO) {
        return Err(io::Error::other("a block claims more bytes than it can contain"));
    }
    snap::raw::Decoder::new().decompress_vec(&block).map_err(io::Error::other)
}
