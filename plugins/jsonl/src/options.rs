//! Options: what a user may tell the reader and the writer.

use tensorferry_row_text::CompressionOptions;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, TypedOption};

const SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Reader,
    "schema",
    "a JSON file with the columns to read, and their types; keys that it does not name are left out",
);
const INFER: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "infer",
    1..=u64::MAX,
    "find the columns' types in this many lines of each file instead of in all; a later line that does not \
     fit is an error",
);
const NULLS: TypedOption<bool> =
    TypedOption::flag(Writer, "nulls", true, "write nulls; false leaves the key out");

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    let own = [SCHEMA.spec(), INFER.spec(), NULLS.spec()];
    own.into_iter().chain(CompressionOptions::declared()).chain(Sharding::options()).collect()
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
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (schema, infer) = (SCHEMA.get(options)?, INFER.get(options)?);
        if schema.is_some() && infer.is_some() {
            return Err(Error::usage(format!("{SCHEMA} leaves nothing to infer: leave out {INFER}")));
        }
        Ok(Self { schema, infer })
    }
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) compression: CompressionOptions,
    /// Whether nulls are written.
    pub(crate) nulls: bool,
    /// How rows are divided over files.
    pub(crate) sharding: Sharding,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            compression: CompressionOptions::new(options)?,
            nulls: NULLS.get(options)?,
            sharding: Sharding::of(options)?,
        })
    }
}
