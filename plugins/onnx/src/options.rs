//! Options: what a user may tell the writer.

use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::{OptionSpec, Options, Result, TypedOption};

const LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "the model whose tensors are to be replaced: those of equal name, dtype and shape; all else of it stays as it is",
);
const MISSING: TypedOption<MissingValues> = TypedOption::choice(
    Writer,
    "missing",
    &[("refuse", MissingValues::Refused), ("keep", MissingValues::Kept)],
    "tensors of like that the input has none for: keep takes the values that like has, and lists them",
);
const EXTERNAL: TypedOption<External> = TypedOption::choice(
    Writer,
    "external",
    &[("auto", External::Auto), ("all", External::All), ("none", External::None)],
    "which elements lie in NAME.onnx.data, beside the model: auto leaves them where the other model has them, and \
     moves all of 1 KiB or more out where the model would be over 2 GiB; all; none",
);

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![LIKE.spec(), MISSING.spec(), EXTERNAL.spec()]
}

/// What becomes of the other model's tensors that none takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingValues {
    /// They are an error.
    Refused,
    /// They keep their values.
    Kept,
}

/// Which elements lie outside of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum External {
    Auto,
    All,
    None,
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// The model that is written again.
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
