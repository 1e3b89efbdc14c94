//! Options: what a user may tell the writer.

use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::{OptionSpec, Options, Result, ShardTag, TypedOption};

const FORMAT: TypedOption<FileFormat> = TypedOption::choice(
    Writer,
    "format",
    &[("zip", FileFormat::Zip), ("legacy", FileFormat::Legacy)],
    "the container: zip can be memory-mapped; legacy is what torch wrote before 1.6, and still reads",
);
const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    0,
    "split into files of at most this many bytes of tensors, with an index, named as on the Hugging Face Hub \
     (5GB is usual)",
);

/// The container of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// A zip archive.
    Zip,
    /// The stream of torch before 1.6.
    Legacy,
}

/// What the format declares.
pub(crate) fn declared() -> [OptionSpec; 3] {
    [FORMAT.spec(), MAX_SHARD_SIZE.spec(), ShardTag::spec()]
}

/// What the writer was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    /// The container.
    pub(crate) format: FileFormat,
    /// Bytes of tensors in one file; `None` for one file.
    pub(crate) max_shard_size: Option<u64>,
    /// What shards have in their names.
    pub(crate) shard_tag: ShardTag,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (format, max_shard_size) = (FORMAT.get(options)?, MAX_SHARD_SIZE.get(options)?);
        Ok(Self { format, max_shard_size, shard_tag: ShardTag::of(options)? })
    }
}
