//! Options of the reader and the writer.

use tensorferry_row_text::CompressionOptions;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, TypedOption};

const SCHEMA: TypedOption<Option<String>> = TypedOption::source(
    Reader,
    "schema",
    "JSON file with the columns to read and their types; other keys are left out",
);
const INFER: TypedOption<Option<u64>> = TypedOption::integer(
    Reader,
    "infer",
    1..=u64::MAX,
    "infer column types from this many lines of each file, not all; a later line that does not fit is an error",
);
const NULLS: TypedOption<bool> =
    TypedOption::flag(Writer, "nulls", true, "write nulls; false omits their keys");

pub(crate) fn declared() -> Vec<OptionSpec> {
    let own = [SCHEMA.spec(), INFER.spec(), NULLS.spec()];
    own.into_iter().chain(CompressionOptions::declared()).chain(Sharding::options()).collect()
}

#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// Path of a schema file.
    pub(crate) schema: Option<String>,
    /// Number of lines per file to infer the schema from, or `None` for all lines.
    pub(crate) infer: Option<u64>,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (schema, infer) = (SCHEMA.get(options)?, INFER.get(options)?);
        if schema.is_some() && infer.is_some() {
            return Err(Error::usage(format!("{SCHEMA} and {INFER} cannot be combined")));
        }
        Ok(Self { schema, infer })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) compression: CompressionOptions,
    pub(crate) nulls: bool,
    pub(crate) sharding: Sharding,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            compression: CompressionOptions::new(options)?,
            nulls: NULLS.get(options)?,
            sharding: Sharding::of(options)?,
        })
    }
}
