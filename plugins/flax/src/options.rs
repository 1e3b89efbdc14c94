//! Options of the reader and the writer.

use tensorferry_hub::SHARD_OPTION;
use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::{OptionSpec, Options, Result, ShardTag, TypedOption};

const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    0,
    "maximum bytes of tensors per file; splits the model into shards with an index, named as on the Hugging Face Hub \
     (10GB was usual)",
);
const CHUNK_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "chunk_size",
    1,
    "maximum bytes of an array before it is cut into chunks, which Flax joins (default: 1GiB, as in Flax)",
);

/// The chunk size of Flax, which is also the maximum length of a value that the Python msgpack
/// package reads.
const FLAX_CHUNK_SIZE: u64 = 1 << 30;
const MAX_CHUNK_SIZE: u64 = (1 << 31) - (1 << 10);

pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![SHARD_OPTION.spec(), MAX_SHARD_SIZE.spec(), ShardTag::spec(), CHUNK_SIZE.spec()]
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    /// Maximum number of tensor bytes per file, or `None` for a single file.
    pub(crate) max_shard_size: Option<u64>,
    /// The tag in the file names of shards.
    pub(crate) shard_tag: ShardTag,
    /// Maximum size of an array in bytes. Larger arrays are split into chunks.
    pub(crate) chunk_size: u64,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let chunk_size = CHUNK_SIZE.get(options)?.unwrap_or(FLAX_CHUNK_SIZE);
        if chunk_size > MAX_CHUNK_SIZE {
            return Err(CHUNK_SIZE.refuse(format!("at most {MAX_CHUNK_SIZE} bytes"), chunk_size));
        }
        let (max_shard_size, shard_tag) = (MAX_SHARD_SIZE.get(options)?, ShardTag::of(options)?);
        Ok(Self { max_shard_size, shard_tag, chunk_size })
    }
}
