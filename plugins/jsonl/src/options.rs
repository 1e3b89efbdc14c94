//! Options: what a user may tell the reader and the writer.

use crate::codec::Codec;
use tensorferry_sdk::{Error, OptionKind, OptionSpec, Options, Result};

const SCHEMA: &str = "schema";
const INFER: &str = "infer";
const CODEC: &str = "codec";
const LEVEL: &str = "level";
const NULLS: &str = "nulls";
const SHARDS: &str = "shards";

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    let words = |words: &[&str]| OptionKind::Choice(words.iter().map(|&word| word.to_owned()).collect());
    vec![
        OptionSpec::reader(
            SCHEMA,
            OptionKind::Source,
            None,
            "a JSON file with the columns to read, and their types; keys that it does not name are left out",
        ),
        OptionSpec::reader(
            INFER,
            OptionKind::Integer,
            None,
            "find the columns' types in this many lines of each file instead of in all; a later line that does not \
             fit is an error",
        ),
        OptionSpec::writer(
            CODEC,
            words(&["auto", "none", "gzip", "zstd"]),
            Some("auto"),
            "compress each file; auto goes by its name (.gz, .zst)",
        ),
        OptionSpec::writer(LEVEL, OptionKind::Integer, None, "with gzip (0-9) or zstd (1-22): how hard"),
        OptionSpec::writer(NULLS, OptionKind::Bool, Some("true"), "write nulls; false leaves the key out"),
        OptionSpec::writer(
            SHARDS,
            OptionKind::Integer,
            None,
            "write this many files, named NAME-00000-of-0000N.jsonl",
        ),
    ]
}

/// What the reader was told.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// The path of a schema.
    pub(crate) schema: Option<String>,
    /// Lines of each file that tell the schema; all, if there is no number.
    pub(crate) infer: Option<u64>,
}

impl ReadOptions {
    /// Reads the checked options.
    ///
    /// # Errors
    /// Usage: no lines to infer from, or a schema besides.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (schema, infer) = (options.text(SCHEMA).map(str::to_owned), at_least_one(options, INFER)?);
        if schema.is_some() && infer.is_some() {
            return Err(Error::usage(format!("-i {SCHEMA} leaves nothing to infer: leave out -i {INFER}")));
        }
        Ok(Self { schema, infer })
    }
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// How files are compressed; by their names, if nothing is said.
    pub(crate) codec: Option<Codec>,
    /// How hard.
    pub(crate) level: Option<u32>,
    /// Whether nulls are written.
    pub(crate) nulls: bool,
    /// How many files, if there is to be a number in their names.
    pub(crate) shards: Option<u32>,
}

impl WriteOptions {
    /// Reads the checked options.
    ///
    /// # Errors
    /// Usage: no shards, or too many.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let shards = at_least_one(options, SHARDS)?.map(|shards| {
            u32::try_from(shards).ok().filter(|&shards| shards <= 100_000).ok_or_else(|| {
                Error::usage(format!("option {SHARDS}")).expected("at most 100000").found(shards)
            })
        });
        Ok(Self {
            codec: match options.text(CODEC) {
                Some("none") => Some(Codec::Plain),
                Some("gzip") => Some(Codec::Gzip),
                Some("zstd") => Some(Codec::Zstd),
                _ => None,
            },
            level: options.integer(LEVEL).map(|level| u32::try_from(level).unwrap_or(u32::MAX)),
            nulls: options.is_true(NULLS),
            shards: shards.transpose()?,
        })
    }

    /// The codec of a file of this name, and its level.
    ///
    /// # Errors
    /// Usage: a level that it does not have.
    pub(crate) fn codec_of(&self, name: &str) -> Result<(Codec, u32)> {
        let by_name = || {
            let named = crate::codec::SUFFIXES.into_iter().rev().find(|(suffix, _)| name.ends_with(suffix));
            named.map_or(Codec::Plain, |(_, codec)| codec)
        };
        let codec = self.codec.unwrap_or_else(by_name);
        let (levels, default) = match codec {
            Codec::Plain => (0..=0, 0),
            Codec::Gzip => (0..=9, 6),
            Codec::Zstd => (1..=22, 3),
        };
        match self.level {
            None => Ok((codec, default)),
            Some(level) if codec != Codec::Plain && levels.contains(&level) => Ok((codec, level)),
            Some(level) => {
                let expected = match codec {
                    Codec::Plain => "none: the output is not compressed".to_owned(),
                    _ => format!("{} to {}", levels.start(), levels.end()),
                };
                Err(Error::usage(format!("option {LEVEL}")).expected(expected).found(level))
            }
        }
    }
}

fn at_least_one(options: &Options, key: &str) -> Result<Option<u64>> {
    match options.integer(key) {
        Some(0) => Err(Error::usage(format!("option {key}")).expected("at least 1").found(0)),
        given => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{ErrorKind, Side};

    fn options(given: &[(&str, &str)]) -> Result<WriteOptions> {
        let given: Vec<_> = given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        WriteOptions::new(&Options::check(&declared(), Side::Writer, &given)?)
    }

    #[test]
    fn a_name_tells_the_codec() {
        let default = options(&[]).unwrap();
        assert_eq!(default.codec_of("a.jsonl").unwrap(), (Codec::Plain, 0));
        assert_eq!(default.codec_of("a.jsonl.gz").unwrap(), (Codec::Gzip, 6));
        assert_eq!(default.codec_of("a.jsonl.zst").unwrap(), (Codec::Zstd, 3));
        assert_eq!(options(&[("codec", "none")]).unwrap().codec_of("a.gz").unwrap(), (Codec::Plain, 0));
        assert_eq!(options(&[("level", "9")]).unwrap().codec_of("a.gz").unwrap(), (Codec::Gzip, 9));
        for (name, level) in [("a.jsonl", "1"), ("a.gz", "10"), ("a.zst", "0"), ("a.zst", "23")] {
            let error = options(&[("level", level)]).unwrap().codec_of(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{name} {level}");
        }
    }
}
