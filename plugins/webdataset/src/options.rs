//! Defines the options of the reader and the writer.

use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::records::Sharding;
use tensorferry_sdk::{OptionSpec, TypedOption};

pub(crate) const DECODE: TypedOption<bool> = TypedOption::choice(
    Reader,
    "members",
    &[("bytes", false), ("typed", true)],
    "typed: txt, text, transcript, json and jsn as text; cls, cls2, index, inx and id as integers",
);
pub(crate) const KEY_COLUMN: TypedOption<Option<String>> =
    TypedOption::text(Reader, "key", "name for the column of sample keys [default: __key__]");
pub(crate) const WEIGHTS_ARE_SAMPLES: TypedOption<bool> = TypedOption::choice(
    Reader,
    "weights",
    &[("refuse", false), ("samples", true)],
    "refuse a tar that contains a checkpoint or tables, or read it as samples",
);
pub(crate) const KEY: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "key",
    "column of sample keys: text without dots, or integers [default: __key__]",
);

pub(crate) fn declared() -> Vec<OptionSpec> {
    [DECODE.spec(), KEY_COLUMN.spec(), WEIGHTS_ARE_SAMPLES.spec(), KEY.spec()]
        .into_iter()
        .chain(Sharding::options())
        .collect()
}
