//! Options: what a user may tell the reader and the writer.

use crate::header::valid_alignment;
use crate::quantize::Rules;
use crate::set::SPLIT_KEYS;
use crate::{ALIGNMENT_KEY, metadata};
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{OptionSpec, Options, Result, TypedOption, Value};

/// What a member of a split that is named means.
pub(crate) const MEMBER_IS_ALONE: TypedOption<bool> = TypedOption::choice(
    Reader,
    "shard",
    &[("set", false), ("alone", true)],
    "what one member of a split that is named means: set is the whole model, alone that file",
);
const SET: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "set",
    "an entry of the metadata as KEY=TYPE:VALUE (general.architecture=string:llama, llama.block_count=u32:2); \
     one that the input has is replaced",
);

const QUANTIZE: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "quantize",
    "make blocks of floats: q8_0, q4_0, q4_1, q5_0, q5_1, tq1_0, tq2_0 or mxfp4, with F32 for tensors of one dimension \
     and F16 where rows are no whole blocks, as llama.cpp has it; or a list of GLOB=TYPE, the first that matches counts",
);

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![MEMBER_IS_ALONE.spec(), SET.spec(), QUANTIZE.spec()]
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// An entry of the metadata.
    pub(crate) set: Option<(String, Value)>,
    /// Which tensors are quantised.
    pub(crate) quantize: Rules,
}

impl WriteOptions {
    /// Reads the checked options.
    ///
    /// # Errors
    /// Usage: an entry that the format cannot have, or rules that are none.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let rules = |text: String| {
            Rules::parse(&text).map_err(|expected| QUANTIZE.refuse(expected, format!("{text:?}")))
        };
        Ok(Self {
            set: SET.get(options)?.map(|text| entry(&text)).transpose()?,
            quantize: QUANTIZE.get(options)?.map(rules).transpose()?.unwrap_or_default(),
        })
    }
}

fn entry(text: &str) -> Result<(String, Value)> {
    let (key, typed) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| SET.refuse("KEY=TYPE:VALUE", format!("{text:?}")))?;
    let value = metadata::parse(typed).map_err(|error| error.context(key))?;
    if SPLIT_KEYS.contains(&key) {
        return Err(SET.refuse("a key that does not say how files are split", key));
    }
    if key == ALIGNMENT_KEY && valid_alignment(&value).is_none() {
        return Err(SET.refuse(format!("{ALIGNMENT_KEY}=u32: and a power of two"), typed));
    }
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn set(text: &str) -> Result<Option<(String, Value)>> {
        let given = [("set".to_owned(), text.to_owned())];
        Ok(WriteOptions::new(&Options::check(&declared(), Writer, &given)?)?.set)
    }

    #[test]
    fn an_entry_has_a_key_a_type_and_a_value() {
        let (key, value) = set("a.b=string:x=y:z").unwrap().unwrap();
        assert_eq!((&*key, value.as_text()), ("a.b", Some("x=y:z")));
        assert_eq!(&*set("general.alignment=u32:64").unwrap().unwrap().1.root().class, "U32");
        for wrong in ["a", "=u32:1", "a=1", "a=u32:-1", "a=u9:1", "split.no=u16:0", "general.alignment=u32:3"]
        {
            assert_eq!(set(wrong).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
        }
    }
}
