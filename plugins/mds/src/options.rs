//! Options: what a user may tell the reader and the writer.

use crate::codec::Codec;
use crate::hash;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Error, OptionSpec, Options, Result, ShardTag, TypedOption};

const VERIFY: TypedOption<bool> = TypedOption::flag(
    Reader,
    "verify",
    true,
    "compare shards with the hashes that the index has of them; false reads them unseen",
);
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
    "compress each shard as a whole",
);
const LEVEL: TypedOption<Option<u32>> = TypedOption::integer(
    Writer,
    "level",
    0..=u64::MAX,
    "with zstd (1-22), gz (0-9), bz2 (1-9) or br (0-11): how hard",
);
const HASHES: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "hashes",
    "hashes of each shard for the index, with commas between them: sha1, sha256, xxh64 and others",
);
const SHARD_ROWS: TypedOption<Option<u64>> =
    TypedOption::integer(Writer, "shard_rows", 1..=u64::MAX, "samples of a shard, at most");
const MAX_SHARD_SIZE: TypedOption<u64> = TypedOption::size(
    Writer,
    "max_shard_size",
    1,
    "bytes of a shard before it is compressed; also at most a sixteenth of --memory, in which it is made",
)
.or("64MiB");
const NULLS: TypedOption<Nulls> = TypedOption::choice(
    Writer,
    "nulls",
    &[("fill", Nulls::Fill), ("json", Nulls::Json), ("error", Nulls::Error)],
    "fill: zeros, NaN and empty values stand for nulls, as a loss; json: columns that may be null are JSON",
);
const LISTS: TypedOption<bool> = TypedOption::choice(
    Writer,
    "lists",
    &[("ndarray", false), ("json", true)],
    "what lists of numbers are written as; an ndarray has one number at least",
);

/// What the format declares.
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

/// Whether the reader verifies hashes.
pub(crate) fn is_verified(options: &Options) -> Result<bool> {
    VERIFY.get(options)
}

/// What becomes of nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Zeros, NaN and empty values stand for them.
    Fill,
    /// Columns that may have some are JSON.
    Json,
    /// They are an error.
    Error,
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) compression: Option<(Codec, Option<u32>)>,
    /// Names of hashes, in order.
    pub(crate) hashes: Vec<String>,
    pub(crate) shard_rows: Option<u64>,
    pub(crate) shard_bytes: u64,
    /// What shards have in their names.
    pub(crate) shard_tag: ShardTag,
    pub(crate) nulls: Nulls,
    /// Whether lists of numbers are JSON too.
    pub(crate) lists_as_json: bool,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (codec, level) = (COMPRESSION.get(options)?, LEVEL.get(options)?);
        if let Some(level) = level {
            let levels = codec.and_then(Codec::levels);
            if levels.as_ref().is_none_or(|levels| !levels.contains(&level)) {
                let none = || "none: without compression, or with snappy".to_owned();
                let expected =
                    levels.map_or_else(none, |levels| format!("{} to {}", levels.start(), levels.end()));
                return Err(LEVEL.refuse(expected, level));
            }
        }
        let text = HASHES.get(options)?.unwrap_or_default();
        let mut hashes: Vec<String> =
            text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        // As the library has them.
        hashes.sort();
        hashes.dedup();
        if let Some(unknown) = hashes.iter().find(|name| !hash::NAMES.contains(&name.as_str())) {
            return Err(HASHES.refuse(hash::NAMES.join(", "), unknown));
        }
        let shard_bytes = MAX_SHARD_SIZE.get(options)?;
        if u32::try_from(shard_bytes).is_err() {
            return Err(MAX_SHARD_SIZE.refuse("less than 4 GiB: places in a shard have 32 bits", shard_bytes));
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

    /// As the index says it: `zstd:7`.
    pub(crate) fn compression_word(&self) -> Option<String> {
        let (codec, level) = self.compression?;
        Some(level.map_or(codec.word().to_owned(), |level| format!("{}:{level}", codec.word())))
    }
}

/// The error for a null where the user wants none.
pub(crate) fn null_refused(column: &str) -> Error {
    Error::unsupported("MDS has no nulls: -o nulls=fill or -o nulls=json says what stands for them")
        .column(column)
}
