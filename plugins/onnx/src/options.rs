//! Options of the writer.

use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::{OptionSpec, Options, Result, TypedOption};

const LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "model whose tensors are replaced by those with the same name, dtype and shape; the rest is copied",
);
const MISSING: TypedOption<MissingValues> = TypedOption::choice(
    Writer,
    "missing",
    &[("refuse", MissingValues::Refused), ("keep", MissingValues::Kept)],
    "tensors of the -o like= model that the input lacks: refuse fails, keep keeps and lists their values",
);
const EXTERNAL: TypedOption<External> = TypedOption::choice(
    Writer,
    "external",
    &[("auto", External::Auto), ("all", External::All), ("none", External::None)],
    "elements stored in NAME.onnx.data: auto keeps them where the -o like= model has them, and moves those of 1 KiB \
     or more out if the model would exceed 2 GiB; all moves those of 1 KiB or more; none",
);

pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![LIKE.spec(), MISSING.spec(), EXTERNAL.spec()]
}

/// The action for tensors of the model that the input does not replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingValues {
    Refused,
    Kept,
}

/// The elements to store outside of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum External {
    Auto,
    All,
    None,
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Path of the model that provides the graph.
    pub(crate) like: Option<String>,
    pub(crate) missing: MissingValues,
    pub(crate) external: External,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            like: LIKE.get(options)?,
            missing: MISSING.get(options)?,
            external: EXTERNAL.get(options)?,
        })
    }
}
