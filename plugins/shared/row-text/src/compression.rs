//! Compresses outputs in text formats. This module defines the compression options of writers, and
//! compresses each piece as a separate gzip member or Zstandard frame.

use crate::codec::{Codec, SUFFIXES};
use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{ByteSink, Error, OptionSpec, Options, Result, TypedOption};

/// The default value of the option. The file name then determines the codec.
const CODEC: TypedOption<Option<Codec>> = TypedOption::choice(
    Writer,
    "compression",
    &[("auto", None), ("none", Some(Codec::Plain)), ("gzip", Some(Codec::Gzip)), ("zstd", Some(Codec::Zstd))],
    "compress each file; auto uses the file name (.gz, .zst)",
);
const LEVEL: TypedOption<Option<u32>> =
    TypedOption::integer(Writer, "level", 0..=u64::MAX, "compression level for gzip (0-9) or zstd (1-22)");

/// The compression options of a writer.
#[derive(Debug, Clone, Copy)]
pub struct CompressionOptions {
    codec: Option<Codec>,
    level: Option<u32>,
}

impl CompressionOptions {
    /// Returns the compression options that a writer declares.
    #[must_use]
    pub fn declared() -> [OptionSpec; 2] {
        [CODEC.spec(), LEVEL.spec()]
    }

    pub fn new(options: &Options) -> Result<Self> {
        Ok(Self { codec: CODEC.get(options)?, level: LEVEL.get(options)? })
    }

    /// Returns the compression for a file with this name. Fails if the codec does not support the
    /// compression level.
    pub fn of_name(self, name: &str) -> Result<Compression> {
        let named = || SUFFIXES.into_iter().rev().find(|(suffix, _)| has_suffix(name, suffix));
        let codec = self.codec.or_else(|| named().map(|(_, codec)| codec)).unwrap_or(Codec::Plain);
        let levels = match codec {
            Codec::Plain => 0..=0,
            Codec::Gzip => 0..=9,
            Codec::Zstd => 1..=22,
        };
        match self.level {
            None => Ok(Compression::usual(codec)),
            Some(level) if codec != Codec::Plain && levels.contains(&level) => {
                Ok(Compression { codec, level })
            }
            Some(level) => {
                let expected = match codec {
                    Codec::Plain => "no level, because the output is not compressed".to_owned(),
                    _ => format!("{} to {}", levels.start(), levels.end()),
                };
                Err(LEVEL.refuse(expected, level))
            }
        }
    }
}

/// Writers pass uncompressed text on in blocks of at least this many bytes, which stay in the
/// processor's cache until they are written.
pub const MIN_BLOCK_BYTES: usize = 256 << 10;

/// The codec and the compression level of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    codec: Codec,
    level: u32,
}

impl Compression {
    /// Returns a codec with its default level.
    #[must_use]
    pub fn usual(codec: Codec) -> Self {
        let level = match codec {
            Codec::Plain => 0,
            Codec::Gzip => 6,
            Codec::Zstd => 3,
        };
        Self { codec, level }
    }

    #[must_use]
    pub fn is_none(self) -> bool {
        self.codec == Codec::Plain
    }

    /// Returns `output` if a piece of text can be written to it in blocks. A compressed piece is
    /// compressed as a whole.
    pub fn blocks(self, output: &mut dyn ByteSink) -> Option<&mut dyn ByteSink> {
        self.is_none().then_some(output)
    }

    /// Compresses a piece of text into `output`.
    pub fn write(self, text: &[u8], output: &mut dyn ByteSink) -> Result<()> {
        match self.codec {
            Codec::Plain => output.write(text),
            Codec::Gzip => {
                let mut member = flate2::bufread::GzEncoder::new(text, flate2::Compression::new(self.level));
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut member, &mut bytes)?;
                output.write(&bytes)
            }
            Codec::Zstd => {
                let level = i32::try_from(self.level).map_err(|_| Error::usage("no such level"))?;
                output.write(&zstd::bulk::compress(text, level)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;
    use tensorferry_sdk::memory::pairs;

    fn of(given: &[(&str, &str)], name: &str) -> Result<Compression> {
        let options = Options::check(&CompressionOptions::declared(), Writer, &pairs(given))?;
        CompressionOptions::new(&options)?.of_name(name)
    }

    #[test]
    fn a_name_tells_the_codec() {
        for (given, name, codec, level) in [
            (&[][..], "a.jsonl", Codec::Plain, 0),
            (&[], "a.jsonl.gz", Codec::Gzip, 6),
            (&[], "a.jsonl.zst", Codec::Zstd, 3),
            (&[], "A.JSONL.GZ", Codec::Gzip, 6),
            (&[("compression", "none")], "a.gz", Codec::Plain, 0),
            (&[("level", "9")], "a.gz", Codec::Gzip, 9),
        ] {
            assert_eq!(of(given, name).unwrap(), Compression { codec, level }, "{given:?} {name}");
        }
        for (name, level) in [("a.jsonl", "1"), ("a.gz", "10"), ("a.zst", "0"), ("a.zst", "23")] {
            let error = of(&[("level", level)], name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{name} {level}");
        }
    }
}
