//! Options of the reader and the writer.

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::{Group, Roll, Sharding};
use tensorferry_sdk::{OptionSpec, Options, Result, TypedOption};

/// The host handles this option, because a reader does not see the other entries of a folder.
const TABLE_LOG: TypedOption<bool> = TypedOption::choice(
    Reader,
    "table_log",
    &[("refuse", false), ("ignore", true)],
    "folder with a Delta, Hudi, Iceberg or Spark log: refuse it, or read all files and ignore the log",
);
const INT96: TypedOption<Int96Unit> = TypedOption::choice(
    Reader,
    "int96",
    &[("auto", Int96Unit::Auto), ("us", Int96Unit::Microseconds), ("ns", Int96Unit::Nanoseconds)],
    "unit of INT96 times; auto is lossless, us drops nanoseconds, ns covers only the years 1677 to 2262",
);
const COMPRESSION: TypedOption<&str> = TypedOption::choice(
    Writer,
    "compression",
    &[
        ("snappy", "snappy"),
        ("zstd", "zstd"),
        ("gzip", "gzip"),
        ("lz4", "lz4"),
        ("brotli", "brotli"),
        ("none", "none"),
    ],
    "page codec; lz4 is LZ4_RAW; snappy leaves a chunk uncompressed if its first page does not shrink",
);
const LEVEL: TypedOption<Option<u32>> = TypedOption::integer(
    Writer,
    "level",
    0..=u64::MAX,
    "compression level: 1-22 for zstd, 0-9 for gzip, 0-11 for brotli",
);
const ROW_GROUP_ROWS: TypedOption<usize> =
    TypedOption::integer(Writer, "row_group_rows", 1..=u64::MAX, "maximum rows in a row group").or("1048576");
const ROW_GROUP_SIZE: TypedOption<u64> = TypedOption::size(
    Writer,
    "row_group_size",
    0,
    "approximate size of a row group before encoding; each thread keeps one in memory",
)
.or("32MiB");
const DICTIONARY: TypedOption<DictionaryUse> = TypedOption::choice(
    Writer,
    "dictionary",
    &[("auto", DictionaryUse::Auto), ("true", DictionaryUse::Always), ("false", DictionaryUse::Never)],
    "store repeated values once; auto skips columns of bytes and floats, which rarely repeat",
);
const STATISTICS: TypedOption<bool> = TypedOption::flag(
    Writer,
    "statistics",
    true,
    "write minimum, maximum and null count for each column of a row group",
);

pub(crate) fn declared() -> Vec<OptionSpec> {
    let own = [
        TABLE_LOG.spec(),
        INT96.spec(),
        COMPRESSION.spec(),
        LEVEL.spec(),
        ROW_GROUP_ROWS.spec(),
        ROW_GROUP_SIZE.spec(),
        DICTIONARY.spec(),
        STATISTICS.spec(),
    ];
    own.into_iter().chain(Sharding::options()).collect()
}

/// Unit of the timestamps that are read from INT96 values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Int96Unit {
    /// The unit in the Arrow schema. Without an Arrow schema, the unit is nanoseconds if the
    /// first values require that precision, and microseconds otherwise.
    Auto,
    Microseconds,
    Nanoseconds,
}

impl Int96Unit {
    pub(crate) fn of(options: &Options) -> Result<Self> {
        INT96.get(options)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Codec and its level.
    pub(crate) compression: Compression,
    /// Maximum number of rows in a row group.
    pub(crate) row_group_rows: usize,
    /// Approximate size of a row group as Arrow arrays in memory, in bytes.
    pub(crate) row_group_size: u64,
    pub(crate) dictionary: DictionaryUse,
    /// Whether to write statistics for each column chunk.
    pub(crate) statistics: bool,
    pub(crate) sharding: Sharding,
}

/// The columns for which a dictionary is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DictionaryUse {
    /// Columns whose type makes repeated values likely.
    Auto,
    Always,
    Never,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            compression: compression(options)?,
            row_group_rows: ROW_GROUP_ROWS.get(options)?,
            row_group_size: ROW_GROUP_SIZE.get(options)?.max(1),
            dictionary: DICTIONARY.get(options)?,
            statistics: STATISTICS.get(options)?,
            sharding: Sharding::of(options)?,
        })
    }

    /// Returns the size of a row group. It never exceeds the maximum shard size.
    pub(crate) fn group(&self) -> Group {
        let max = match self.sharding {
            Sharding::Roll(Roll::Bytes(bytes)) => bytes,
            _ => u64::MAX,
        };
        Group { rows: self.row_group_rows, bytes: self.row_group_size.min(max).max(1) }
    }
}

fn compression(options: &Options) -> Result<Compression> {
    let (name, level) = (COMPRESSION.get(options)?, LEVEL.get(options)?);
    let refused = |expected: &str| LEVEL.refuse(expected, level.unwrap_or_default());
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
        (_, Some(_)) => return Err(refused(&format!("no level, because {name} does not support levels"))),
        ("lz4", None) => Compression::LZ4_RAW,
        ("none", None) => Compression::UNCOMPRESSED,
        (_, None) => Compression::SNAPPY,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;
    use tensorferry_sdk::memory::pairs;

    fn options(given: &[(&str, &str)]) -> Result<WriteOptions> {
        WriteOptions::new(&Options::check(&declared(), Writer, &pairs(given))?)
    }

    #[test]
    fn the_defaults_are_snappy_in_one_file() {
        let options = options(&[]).unwrap();
        assert_eq!(options.compression, Compression::SNAPPY);
        assert_eq!((options.sharding, options.row_group_size), (Sharding::One, 32 << 20));
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
        assert!(refused(&[("shards", "100000")]));
        assert!(refused(&[("row_group_rows", "0")]));
        let zstd = options(&[("compression", "zstd"), ("level", "22")]).unwrap();
        assert_eq!(zstd.compression, Compression::ZSTD(ZstdLevel::try_new(22).unwrap()));
    }
}
