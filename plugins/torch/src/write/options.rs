//! Options of the writer.

use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::{OptionSpec, Options, Result, ShardTag, TypedOption};

const FORMAT: TypedOption<FileFormat> = TypedOption::choice(
    Writer,
    "format",
    &[("zip", FileFormat::Zip), ("legacy", FileFormat::Legacy)],
    "container: zip (can be memory-mapped) or legacy (torch before 1.6)",
);
const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    0,
    "split into shards of at most this size, named as on the Hugging Face Hub (5GB is usual)",
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Zip,
    /// The stream format of torch before version 1.6.
    Legacy,
}

pub(crate) fn specs() -> [OptionSpec; 3] {
    [FORMAT.spec(), MAX_SHARD_SIZE.spec(), ShardTag::spec()]
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    pub(crate) format: FileFormat,
    /// Maximum number of tensor bytes per file; `None` for a single file.
    pub(crate) max_shard_size: Option<u64>,
    /// The tag to add to the file names of shards.
    pub(crate) shard_tag: ShardTag,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (format, max_shard_size) = (FORMAT.get(options)?, MAX_SHARD_SIZE.get(options)?);
        Ok(Self { format, max_shard_size, shard_tag: ShardTag::of(options)? })
    }
}
