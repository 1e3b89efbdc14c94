//! How a whole file is compressed, which its first bytes say and not its name.

use std::io::{self, BufReader, Read};
use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::{Result, Source};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Not at all.
    Plain,
    /// RFC 1952, of one or more members.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// What is appended to a file's name.
pub(crate) const SUFFIXES: [(&str, Codec); 3] =
    [("", Codec::Plain), (".gz", Codec::Gzip), (".zst", Codec::Zstd)];

/// Every ending of files that may be compressed, for each of their own endings.
pub fn with_suffixes(own: &'static [&'static str]) -> impl Iterator<Item = String> + Clone {
    own.iter().flat_map(|own| SUFFIXES.into_iter().map(move |(suffix, _)| format!("{own}{suffix}")))
}

/// A file's name without what says that it is compressed.
#[must_use]
pub fn uncompressed_name(name: &str) -> &str {
    SUFFIXES.iter().rev().find_map(|(suffix, _)| strip_suffix(name, suffix)).unwrap_or(name)
}

/// The first bytes of a file, decompressed: at most `most`, of as many that are stored. What was cut off in the middle is
/// no error here.
///
/// # Errors
/// I/o.
pub fn beginning(source: &dyn Source, name: &str, most: u64) -> Result<Vec<u8>> {
    let file = source.open(name)?;
    let mut stored = vec![0; usize::try_from(source.len(file).min(most)).unwrap_or(0)];
    source.read_at(file, 0, &mut stored)?;
    let mut text = Vec::new();
    if let Ok(reader) = Codec::of_bytes(&stored).decompressed(io::Cursor::new(stored)) {
        let _ = reader.take(most).read_to_end(&mut text);
    }
    Ok(text)
}

impl Codec {
    /// The codec of bytes that begin so.
    pub(crate) fn of_bytes(first: &[u8]) -> Self {
        if first.starts_with(&[0x1f, 0x8b, 8]) {
            Self::Gzip
        } else if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else {
            Self::Plain
        }
    }

    /// The codec of a source's file.
    ///
    /// # Errors
    /// I/o.
    pub(crate) fn of_file(source: &dyn Source, name: &str) -> Result<Self> {
        let file = source.open(name)?;
        let mut first = [0; 4];
        let len = usize::try_from(source.len(file)).unwrap_or(usize::MAX).min(first.len());
        source.read_at(file, 0, &mut first[..len])?;
        Ok(Self::of_bytes(&first[..len]))
    }

    /// What `input` is the compressed form of.
    ///
    /// # Errors
    /// Zstandard's, if there is no memory for its window.
    pub(crate) fn decompressed(self, input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Plain => Box::new(input),
            Self::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(256 << 10, input)))
            }
            // Its own bound on a window, 128 MiB, is as good as any.
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
        })
    }
}
