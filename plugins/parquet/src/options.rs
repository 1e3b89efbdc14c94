//! Options: what a user may tell the writer. The reader has none.

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use tensorferry_sdk::{Error, OptionKind, OptionSpec, Options, Result};

const COMPRESSION: &str = "compression";
const LEVEL: &str = "level";
const ROW_GROUP_ROWS: &str = "row_group_rows";
const ROW_GROUP_SIZE: &str = "row_group_size";
const DICTIONARY: &str = "dictionary";
const STATISTICS: &str = "statistics";
const SHARDS: &str = "shards";

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    let words = |words: &[&str]| OptionKind::Choice(words.iter().map(|&word| word.to_owned()).collect());
    vec![
        OptionSpec::writer(
            COMPRESSION,
            words(&["snappy", "zstd", "gzip", "lz4", "brotli", "none"]),
            Some("snappy"),
            "the codec of the pages; lz4 is LZ4_RAW; with snappy, a chunk whose first page does not shrink stays as it is",
        ),
        OptionSpec::writer(
            LEVEL,
            OptionKind::Integer,
            None,
            "with zstd (1-22), gzip (0-9) or brotli (0-11): how hard",
        ),
        OptionSpec::writer(
            ROW_GROUP_ROWS,
            OptionKind::Integer,
            Some("1048576"),
            "rows of one row group, at most",
        ),
        OptionSpec::writer(
            ROW_GROUP_SIZE,
            OptionKind::Size,
            Some("32MiB"),
            "bytes of one row group before it is encoded, about; each thread holds one in memory",
        ),
        OptionSpec::writer(
            DICTIONARY,
            words(&["auto", "true", "false"]),
            Some("auto"),
            "store repeated values once: auto leaves out columns of bytes and of floats, whose values seldom repeat",
        ),
        OptionSpec::writer(
            STATISTICS,
            OptionKind::Bool,
            Some("true"),
            "write minimum, maximum and number of nulls of each column of a row group",
        ),
        OptionSpec::writer(
            SHARDS,
            OptionKind::Integer,
            None,
            "write this many files, named NAME-00000-of-0000N.parquet",
        ),
    ]
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// The codec and its level.
    pub(crate) compression: Compression,
    /// Rows of one row group.
    pub(crate) row_group_rows: usize,
    /// Bytes of one row group, as Arrow holds them.
    pub(crate) row_group_size: u64,
    /// Which columns get a dictionary.
    pub(crate) dictionary: DictionaryUse,
    /// Whether each column chunk gets its statistics.
    pub(crate) statistics: bool,
    /// How many files, if there is to be a number in their names.
    pub(crate) shards: Option<u32>,
}

/// Which columns get a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DictionaryUse {
    /// Those whose type makes repetition likely.
    Auto,
    /// All.
    Always,
    /// None.
    Never,
}

impl WriteOptions {
    /// Reads the checked options.
    ///
    /// # Errors
    /// Usage: a level that the codec does not have, or nothing in a row group, or no shards.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let at_least_one = |key: &str| match options.integer(key) {
            Some(0) => Err(Error::usage(format!("option {key}")).expected("at least 1").found(0)),
            given => Ok(given),
        };
        let rows = at_least_one(ROW_GROUP_ROWS)?.unwrap_or(1 << 20);
        let shards = at_least_one(SHARDS)?
            .map(|shards| {
                u32::try_from(shards).ok().filter(|&shards| shards <= 100_000).ok_or_else(|| {
                    Error::usage(format!("option {SHARDS}")).expected("at most 100000").found(shards)
                })
            })
            .transpose()?;
        Ok(Self {
            compression: compression(options)?,
            row_group_rows: usize::try_from(rows).unwrap_or(usize::MAX),
            row_group_size: options.size(ROW_GROUP_SIZE).unwrap_or(32 << 20).max(1),
            dictionary: match options.text(DICTIONARY) {
                Some("true") => DictionaryUse::Always,
                Some("false") => DictionaryUse::Never,
                _ => DictionaryUse::Auto,
            },
            statistics: options.is_true(STATISTICS),
            shards,
        })
    }
}

fn compression(options: &Options) -> Result<Compression> {
    let name = options.text(COMPRESSION).unwrap_or("snappy");
    let level = options.integer(LEVEL).map(|level| u32::try_from(level).unwrap_or(u32::MAX));
    let refused = |expected: &str| {
        Error::usage(format!("option {LEVEL}")).expected(expected).found(level.unwrap_or_default())
    };
    Ok(match (name, level) {
        ("zstd", None) => Compression::ZSTD(ZstdLevel::default()),
        ("zstd", Some(level)) => {
            let level = i32::try_from(level).ok().filter(|&level| level >= 1);
            let level = level.and_then(|level| ZstdLevel::try_new(level).ok());
            Compression::ZSTD(level.ok_or_else(|| refused("1 to 22"))?)
        }
        ("gzip", None) => Compression::GZIP(GzipLevel::default()),
        ("gzip", Some(level)) => Compression::GZIP(GzipLevel::try_new(level).map_err(|_| refused("0 to 9"))?),
        ("brotli", None) => Compression::BROTLI(BrotliLevel::default()),
        ("brotli", Some(level)) => {
            Compression::BROTLI(BrotliLevel::try_new(level).map_err(|_| refused("0 to 11"))?)
        }
        (_, Some(_)) => return Err(refused(&format!("none: {name} has no levels"))),
        ("lz4", None) => Compression::LZ4_RAW,
        ("none", None) => Compression::UNCOMPRESSED,
        (_, None) => Compression::SNAPPY,
    })
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
    fn the_defaults_are_snappy_in_one_file() {
        let options = options(&[]).unwrap();
        assert_eq!(options.compression, Compression::SNAPPY);
        assert_eq!((options.shards, options.row_group_size), (None, 32 << 20));
    }

    #[test]
    fn a_level_belongs_to_its_codec() {
        let refused = |given: &[(&str, &str)]| options(given).unwrap_err().kind() == ErrorKind::Usage;
        assert!(refused(&[("level", "3")]));
        assert!(refused(&[("compression", "zstd"), ("level", "23")]));
        assert!(refused(&[("compression", "zstd"), ("level", "0")]));
        assert!(refused(&[("compression", "gzip"), ("level", "10")]));
        assert!(refused(&[("compression", "lz4"), ("level", "1")]));
        assert!(refused(&[("shards", "0")]));
        assert!(refused(&[("shards", "100001")]));
        assert!(refused(&[("row_group_rows", "0")]));
        let zstd = options(&[("compression", "zstd"), ("level", "22")]).unwrap();
        assert_eq!(zstd.compression, Compression::ZSTD(ZstdLevel::try_new(22).unwrap()));
    }
}
