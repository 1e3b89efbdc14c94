//! Options: what a user may tell the reader and the writer.

use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{OptionSpec, TypedOption};

pub(crate) const DECODE: TypedOption<bool> = TypedOption::choice(
    Reader,
    "members",
    &[("bytes", false), ("typed", true)],
    "typed: txt, text, transcript, json and jsn as text, cls, cls2, index, inx and id as whole numbers; others are bytes",
);
pub(crate) const KEY_COLUMN: TypedOption<Option<String>> = TypedOption::text(
    Reader,
    "key",
    "what the column of the samples' keys is called; __key__ unless it is said",
);
pub(crate) const WEIGHTS_ARE_SAMPLES: TypedOption<bool> = TypedOption::choice(
    Reader,
    "weights",
    &[("refuse", false), ("samples", true)],
    "a tar that holds a checkpoint or tables by the names of its files: refuse it, or read its files as samples",
);
pub(crate) const KEY: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "key",
    "the column of the samples' keys: texts without a dot, or whole numbers; __key__ unless it is said",
);

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    [DECODE.spec(), KEY_COLUMN.spec(), WEIGHTS_ARE_SAMPLES.spec(), KEY.spec()]
        .into_iter()
        .chain(Sharding::options())
        .collect()
}
