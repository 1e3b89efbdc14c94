//! Options of the reader and the writer.

use crate::codec::Codec;
use crate::hash;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Error, OptionSpec, Options, Result, ShardTag, TypedOption};

const VERIFY: TypedOption<bool> =
    TypedOption::flag(Reader, "verify", true, "check shards against the hashes in the index");
const COMPRESSION: TypedOption<Option<Codec>> = TypedOption::choice(
    Writer,
    "compression",
    &[
        ("none", None),
        ("zstd", Some(Codec::Zstd)),
        ("gz", Some(Codec::Gzip)),
        ("bz2", Some(Codec::Bzip2)),
        ("br", Some(Codec::Brotli)),
        ("snappy", Some(Codec::Snappy)),
    ],
    "codec for whole shards",
);
const LEVEL: TypedOption<Option<u32>> = TypedOption::integer(
    Writer,
    "level",
    0..=u64::MAX,
    "compression level: 1-22 for zstd, 0-9 for gz, 1-9 for bz2, 0-11 for br",
);
const HASHES: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "hashes",
    "comma-separated hashes to store in the index: sha1, sha256, xxh64 and others",
);
const SHARD_ROWS: TypedOption<Option<u64>> =
    TypedOption::integer(Writer, "shard_rows", 1..=u64::MAX, "maximum samples in a shard");
const MAX_SHARD_SIZE: TypedOption<u64> = TypedOption::size(
    Writer,
    "max_shard_size",
    1,
    "maximum size of a shard before compression; also limited to a sixteenth of --memory",
)
.or("64MiB");
const NULLS: TypedOption<Nulls> = TypedOption::choice(
    Writer,
    "nulls",
    &[("fill", Nulls::Fill), ("json", Nulls::Json), ("error", Nulls::Error)],
    "fill: write nulls as zeros, NaN and empty values (a loss); json: write nullable columns as JSON",
);
const LISTS: TypedOption<bool> = TypedOption::choice(
    Writer,
    "lists",
    &[("ndarray", false), ("json", true)],
    "form of number lists; an ndarray cannot be empty",
);

pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![
        VERIFY.spec(),
        COMPRESSION.spec(),
        LEVEL.spec(),
        HASHES.spec(),
        SHARD_ROWS.spec(),
        MAX_SHARD_SIZE.spec(),
        ShardTag::spec(),
        NULLS.spec(),
        LISTS.spec(),
    ]
}

/// Returns whether the reader verifies hashes.
pub(crate) fn is_verified(options: &Options) -> Result<bool> {
    VERIFY.get(options)
}

/// The method for writing nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Nulls become zeros, NaN and empty values.
    Fill,
    /// Columns that can have nulls are written as JSON.
    Json,
    /// A null is an error.
    Error,
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) compression: Option<(Codec, Option<u32>)>,
    /// Names of the hashes to write, sorted.
    pub(crate) hashes: Vec<String>,
    pub(crate) shard_rows: Option<u64>,
    pub(crate) shard_bytes: u64,
    /// The tag in shard file names.
    pub(crate) shard_tag: ShardTag,
    pub(crate) nulls: Nulls,
    /// Whether lists of numbers are also written as JSON.
    pub(crate) lists_as_json: bool,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (codec, level) = (COMPRESSION.get(options)?, LEVEL.get(options)?);
        if let Some(level) = level {
            let levels = codec.and_then(Codec::levels);
            if levels.as_ref().is_none_or(|levels| !levels.contains(&level)) {
                let none = || "no level, because snappy and uncompressed shards have none".to_owned();
                let expected =
                    levels.map_or_else(none, |levels| format!("{} to {}", levels.start(), levels.end()));
                return Err(LEVEL.refuse(expected, level));
            }
        }
        let text = HASHES.get(options)?.unwrap_or_default();
        let mut hashes: Vec<String> =
            text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        // The `mosaicml-streaming` library also sorts the names.
        hashes.sort();
        hashes.dedup();
        if let Some(unknown) = hashes.iter().find(|name| !hash::NAMES.contains(&name.as_str())) {
            return Err(HASHES.refuse(hash::NAMES.join(", "), unknown));
        }
        let shard_bytes = MAX_SHARD_SIZE.get(options)?;
        if u32::try_from(shard_bytes).is_err() {
            return Err(
                MAX_SHARD_SIZE.refuse("less than 4 GiB, since offsets are 32-bit numbers", shard_bytes)
            );
        }
        Ok(Self {
            compression: codec.map(|codec| (codec, level)),
            hashes,
            shard_rows: SHARD_ROWS.get(options)?,
            shard_bytes,
            shard_tag: ShardTag::of(options)?,
            nulls: NULLS.get(options)?,
            lists_as_json: LISTS.get(options)?,
        })
    }

    /// Returns the `compression` entry of the index, such as `zstd:7`.
    pub(crate) fn compression_word(&self) -> Option<String> {
        let (codec, level) = self.compression?;
        Some(level.map_or(codec.word().to_owned(), |level| format!("{}:{level}", codec.word())))
    }
}

/// Returns the error for a null in a column for which the options do not allow nulls.
pub(crate) fn null_refused(column: &str) -> Error {
    Error::unsupported("MDS has no nulls")
        .hint("pass -o nulls=fill or -o nulls=json to replace them")
        .column(column)
}
