//! Options of the reader and the writer.

use tensorferry_hub::SHARD_OPTION;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Dtype, Error, OptionSpec, Options, Result, TypedOption};

/// How to read elements for which HDF5 has no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opaque {
    Refuse,
    Bytes,
    Dtype(Dtype),
}

const NAMES: TypedOption<bool> = TypedOption::choice(
    Reader,
    "names",
    &[("key", false), ("name", true)],
    "key: paths in the file (layers/dense/vars/0); name: layer and variable names (encoder/kernel)",
);
const OPAQUE: TypedOption<Opaque> = TypedOption::choice(
    Reader,
    "opaque",
    &[
        ("refuse", Opaque::Refuse),
        ("bytes", Opaque::Bytes),
        ("bf16", Opaque::Dtype(Dtype::BF16)),
        ("f8_e4m3", Opaque::Dtype(Dtype::F8_E4M3)),
        ("f8_e5m2", Opaque::Dtype(Dtype::F8_E5M2)),
    ],
    "untyped elements: leave them out, read them as bytes, or read them as this dtype",
);
const LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "file or model folder to copy with these weights; required for .keras and .h5 outputs",
);

const MISSING: TypedOption<MissingValues> = TypedOption::choice(
    Writer,
    "missing",
    &[("refuse", MissingValues::Refused), ("keep", MissingValues::Kept)],
    "variables of like without a tensor: refuse them, or keep their values",
);

/// Whether variables of the copied file may have no tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingValues {
    Refused,
    /// Keep the values that these variables have in the copied file.
    Kept,
}

pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![NAMES.spec(), OPAQUE.spec(), SHARD_OPTION.spec(), LIKE.spec(), MISSING.spec()]
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    /// Whether to name tensors after their layers and variables.
    pub(crate) own_names: bool,
    pub(crate) opaque: Opaque,
    /// Whether to read a shard without the other shards of its set.
    pub(crate) shard_is_alone: bool,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            own_names: NAMES.get(options)?,
            opaque: OPAQUE.get(options)?,
            shard_is_alone: SHARD_OPTION.get(options)?,
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// The file to copy with new weights.
    pub(crate) like: Option<String>,
    /// Whether variables of the copied file may have no tensor.
    pub(crate) missing: MissingValues,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (like, missing) = (LIKE.get(options)?, MISSING.get(options)?);
        if like.is_none() && missing == MissingValues::Kept {
            return Err(Error::usage(format!(
                "{MISSING}=keep requires {LIKE}, the file whose values are kept"
            )));
        }
        Ok(Self { like, missing })
    }
}
