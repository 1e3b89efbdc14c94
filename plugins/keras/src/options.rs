//! Options: what a user may tell the reader and the writer.

use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Dtype, OptionSpec, Options, Result, TypedOption};

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

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![NAMES.spec(), OPAQUE.spec(), LIKE.spec()]
}

/// What the reader was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    /// Whether tensors have the names of layers.
    pub(crate) own_names: bool,
    pub(crate) opaque: Opaque,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { own_names: NAMES.get(options)?, opaque: OPAQUE.get(options)? })
    }
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// The file that is written again.
    pub(crate) like: Option<String>,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { like: LIKE.get(options)? })
    }
}
