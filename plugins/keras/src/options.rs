//! Options: what a user may tell the reader and the writer.

use tensorferry_hub::SHARD_IS_ALONE;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Dtype, Error, OptionSpec, Options, Result, TypedOption};

/// What elements are of which the file says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opaque {
    Refuse,
    Bytes,
    Is(Dtype),
}

const NAMES: TypedOption<bool> = TypedOption::choice(
    Reader,
    "names",
    &[("key", false), ("name", true)],
    "key: the paths in the file, which Keras needs back (layers/dense/vars/0); name: the layers' and variables' own names \
     (encoder/kernel), where they tell all tensors apart",
);
const OPAQUE: TypedOption<Opaque> = TypedOption::choice(
    Reader,
    "opaque",
    &[
        ("refuse", Opaque::Refuse),
        ("bytes", Opaque::Bytes),
        ("bf16", Opaque::Is(Dtype::BF16)),
        ("f8_e4m3", Opaque::Is(Dtype::F8_E4M3)),
        ("f8_e5m2", Opaque::Is(Dtype::F8_E5M2)),
    ],
    "elements of which the file says nothing but their length: leave them out, read U8 with the length as a last \
     dimension, or what they are",
);
const LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "a .keras, .weights.h5 or .h5 file, or a saved model's folder, that is written again with these tensors in the place \
     of its own; .keras and .h5 need it, since a configuration is not made of weights",
);

const MISSING: TypedOption<MissingValues> = TypedOption::choice(
    Writer,
    "missing",
    &[("refuse", MissingValues::Refused), ("keep", MissingValues::Kept)],
    "variables of like that no tensor is for: keep takes the values that like has, and lists them",
);

/// What becomes of variables that no tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingValues {
    /// They are an error.
    Refused,
    /// They keep their values.
    Kept,
}

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![NAMES.spec(), OPAQUE.spec(), SHARD_IS_ALONE.spec(), LIKE.spec(), MISSING.spec()]
}

/// What the reader was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    /// Whether tensors have the names of layers.
    pub(crate) own_names: bool,
    pub(crate) opaque: Opaque,
    /// Whether a shard that is named is meant by itself.
    pub(crate) shard_is_alone: bool,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            own_names: NAMES.get(options)?,
            opaque: OPAQUE.get(options)?,
            shard_is_alone: SHARD_IS_ALONE.get(options)?,
        })
    }
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// The file that is written again.
    pub(crate) like: Option<String>,
    /// What becomes of its variables that no tensor is for.
    pub(crate) missing: MissingValues,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (like, missing) = (LIKE.get(options)?, MISSING.get(options)?);
        if like.is_none() && missing == MissingValues::Kept {
            return Err(Error::usage(format!(
                "{MISSING}=keep takes values of what {LIKE} names: give that too"
            )));
        }
        Ok(Self { like, missing })
    }
}
