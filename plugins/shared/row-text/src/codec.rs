//! Detects the compression of whole files. The first bytes of a file determine its compression,
//! regardless of the file name.

use std::io::{self, BufRead, BufReader, Read};
use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::records::{ShardFiles, Sharding};
use tensorferry_sdk::{Result, Source};

/// The compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Not compressed.
    Plain,
    /// RFC 1952, with one or more members.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Suffixes of file names, and the codec that each suffix implies.
pub(crate) const SUFFIXES: [(&str, Codec); 3] =
    [("", Codec::Plain), (".gz", Codec::Gzip), (".zst", Codec::Zstd)];

/// Returns all suffixes of files in a format, with and without compression. `own` contains the
/// suffixes without compression.
pub fn with_suffixes(own: &'static [&'static str]) -> impl Iterator<Item = String> + Clone {
    own.iter().flat_map(|own| SUFFIXES.into_iter().map(move |(suffix, _)| format!("{own}{suffix}")))
}

/// Returns the file names of an output: `a.csv.gz`, or shards such as `a-00000-of-00002.csv.gz`.
/// `own` contains the suffixes of the format, starting with the default suffix.
#[must_use]
pub fn shard_files(name: &str, sharding: Sharding, own: &[&str]) -> ShardFiles {
    // A file's suffix is the format's suffix, optionally followed by a codec's suffix.
    let lower = name.to_ascii_lowercase();
    let at = own.iter().find_map(|suffix| lower.rfind(suffix));
    let (stem, suffix) = name.split_at(at.unwrap_or(name.len()));
    ShardFiles::new(sharding, name, stem, if suffix.is_empty() { own[0] } else { suffix })
}

/// Returns the file name without the suffix of a codec.
#[must_use]
pub fn uncompressed_name(name: &str) -> &str {
    SUFFIXES.iter().rev().find_map(|(suffix, _)| strip_suffix(name, suffix)).unwrap_or(name)
}

/// Decompresses the first `max` stored bytes of a file, and returns at most the first `max` bytes
/// of the result. Truncated compressed data is not an error.
pub fn beginning(source: &dyn Source, name: &str, max: u64) -> Result<Vec<u8>> {
    let stored = source.beginning(source.open(name)?, max)?;
    let mut text = Vec::new();
    if let Ok(reader) = Codec::of_bytes(&stored).decompressed(io::Cursor::new(stored)) {
        let _ = reader.take(max).read_to_end(&mut text);
    }
    Ok(text)
}

impl Codec {
    /// Detects the codec from the first bytes of a file.
    #[must_use]
    pub fn of_bytes(first: &[u8]) -> Self {
        if first.starts_with(&[0x1f, 0x8b, 8]) {
            Self::Gzip
        } else if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || begins_with_skippable_frame(first) {
            Self::Zstd
        } else {
            Self::Plain
        }
    }

    /// Detects the codec of a file in a source.
    pub(crate) fn of_file(source: &dyn Source, name: &str) -> Result<Self> {
        Ok(Self::of_bytes(&source.beginning(source.open(name)?, 4)?))
    }

    /// Returns a reader for the decompressed bytes of `input`.
    pub fn decompressed(self, input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Plain => Box::new(input),
            Self::Gzip => {
                let input = BufReader::with_capacity(256 << 10, input);
                Box::new(gzip_members(input))
            }
            // The default window limit of zstd, 128 MiB, is sufficient.
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
        })
    }
}

/// Returns whether the file begins with a frame that Zstandard decoders skip. pzstd writes such a
/// frame before each frame of data.
fn begins_with_skippable_frame(first: &[u8]) -> bool {
    matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Returns a reader that decompresses the consecutive members of a gzip file. Like gzip and Python,
/// the reader ignores zeros after a member as padding.
fn gzip_members(input: impl BufRead) -> impl Read {
    GzipMembers(Some(flate2::bufread::GzDecoder::new(input)))
}

struct GzipMembers<R>(Option<flate2::bufread::GzDecoder<R>>);

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let len = member.read(buffer)?;
            if len > 0 || buffer.is_empty() {
                return Ok(len);
            }
            let input = self.0.take().map(flate2::bufread::GzDecoder::into_inner);
            self.0 = input.map(next_member).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// Returns a decoder for the next member, after skipping any zeros.
fn next_member<R: BufRead>(mut input: R) -> io::Result<Option<flate2::bufread::GzDecoder<R>>> {
    loop {
        let filled = input.fill_buf()?;
        if filled.is_empty() {
            return Ok(None);
        }
        let zeros = filled.iter().take_while(|&&byte| byte == 0).count();
        let is_at_member = zeros < filled.len();
        input.consume(zeros);
        if is_at_member {
            return Ok(Some(flate2::bufread::GzDecoder::new(input)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        member.write_all(text).unwrap();
        member.finish().unwrap()
    }

    fn text(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        Codec::of_bytes(&bytes).decompressed(io::Cursor::new(bytes))?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn padding_and_skippable_frames_hold_nothing() {
        let zeros = vec![0; 600 << 10];
        let skippable = b"\x5f\x2a\x4d\x18\x04\0\0\0abcd";
        let zstd = zstd::bulk::compress(b"ab", 1).unwrap();
        for (parts, expected) in [
            (vec![gzip(b"a"), gzip(b"b")], "ab"),
            (vec![gzip(b"ab"), zeros.clone()], "ab"),
            (vec![gzip(b"a"), vec![0], gzip(b"b"), zeros], "ab"),
            (vec![gzip(b""), gzip(b"ab")], "ab"),
            (vec![zstd.clone()], "ab"),
            (vec![skippable.to_vec(), zstd.clone(), skippable.to_vec(), zstd.clone()], "abab"),
            (vec![zstd, skippable.to_vec()], "ab"),
            (vec![skippable.to_vec()], ""),
        ] {
            assert_eq!(text(parts.concat()).unwrap(), expected);
        }
        for parts in [vec![gzip(b"a"), b"x".to_vec()], vec![gzip(b"a"), gzip(b"b")[..9].to_vec()]] {
            assert!(text(parts.concat()).is_err());
        }
    }
}
