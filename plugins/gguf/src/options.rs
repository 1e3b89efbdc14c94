//! Options: what a user may tell the reader and the writer.

use crate::dequantize::Float;
use crate::header::valid_alignment;
use crate::quantize::Rules;
use crate::set::SPLIT_KEYS;
use crate::{ALIGNMENT_KEY, MOST_ALIGNMENT, metadata};
use std::collections::BTreeMap;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{OptionSpec, Options, Result, TypedOption, Value};

/// What a member of a split that is named means.
pub(crate) const MEMBER_IS_ALONE: TypedOption<bool> = TypedOption::choice(
    Reader,
    "shard",
    &[("set", false), ("alone", true)],
    "what one member of a split that is named means: set is the whole model, alone that file",
);
pub(crate) const NAMES_ARE_OF_HF: TypedOption<bool> = TypedOption::choice(
    Reader,
    "names",
    &[("keep", false), ("hf", true)],
    "what tensors are called: keep as llama.cpp does; hf as transformers does, with rows in its order, config.json and \
     the tokenizer's files (llama, qwen2, qwen3)",
);
/// What blocks become.
pub(crate) const DEQUANTIZE: TypedOption<Option<Float>> = TypedOption::choice(
    Reader,
    "dequantize",
    &[("no", None), ("f32", Some(Float::F32)), ("f16", Some(Float::F16)), ("bf16", Some(Float::Bf16))],
    "give the numbers that quantised blocks stand for, in this dtype; the step dequantize does it too",
);
const KEEPS_NAMES: TypedOption<bool> = TypedOption::choice(
    Writer,
    "names",
    &[("auto", false), ("keep", true)],
    "names of the tensors: auto gives those of llama.cpp, with its order of rows and its metadata, to a model folder of \
     transformers (Llama, Mistral, Qwen 2 and 3), and refuses other architectures; keep leaves them as they are",
);
const LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "another GGUF file, whose metadata, order of tensors and types the output gets; -o set= and -o quantize= come first",
);
const SET: TypedOption<Vec<String>> = TypedOption::list(
    Writer,
    "set",
    "an entry of the metadata as KEY=TYPE:VALUE (general.architecture=string:llama, llama.block_count=u32:2), which \
     comes before any other of its key",
);

const QUANTIZE: TypedOption<Vec<String>> = TypedOption::list(
    Writer,
    "quantize",
    "quantize floats to q8_0, q4_0, q4_1, q5_0, q5_1, tq1_0, tq2_0 or mxfp4; with GLOB=TYPE, the first glob that matches \
     counts; as in llama.cpp, norms, biases, routers and convolutions become F32, and rows that are not whole blocks F16",
);

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![
        MEMBER_IS_ALONE.spec(),
        NAMES_ARE_OF_HF.spec(),
        DEQUANTIZE.spec(),
        KEEPS_NAMES.spec(),
        LIKE.spec(),
        SET.spec(),
        QUANTIZE.spec(),
    ]
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Entries of the metadata.
    pub(crate) set: BTreeMap<String, Value>,
    /// Whether names and rows of a model folder stay as they are.
    pub(crate) keeps_names: bool,
    /// Another file that the output is made like.
    pub(crate) like: Option<String>,
    /// Which tensors are quantised.
    pub(crate) quantize: Rules,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let mut set = BTreeMap::new();
        for text in SET.get(options)? {
            let (key, value) = entry(&text)?;
            if set.insert(key.clone(), value).is_some() {
                return Err(SET.refuse("each key once", format!("{key} twice")));
            }
        }
        let given = QUANTIZE.get(options)?;
        let refuse = |expected| QUANTIZE.refuse(expected, format!("{:?}", given.join(",")));
        Ok(Self {
            set,
            keeps_names: KEEPS_NAMES.get(options)?,
            like: LIKE.get(options)?,
            quantize: Rules::parse(&given).map_err(refuse)?,
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
        let expected = format!("{ALIGNMENT_KEY}=u32: and a power of two of at most {MOST_ALIGNMENT}");
        return Err(SET.refuse(expected, typed));
    }
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn set(texts: &[&str]) -> Result<BTreeMap<String, Value>> {
        let given: Vec<_> = texts.iter().map(|text| ("set".to_owned(), (*text).to_owned())).collect();
        Ok(WriteOptions::new(&Options::check(&declared(), Writer, &given)?)?.set)
    }

    #[test]
    fn an_entry_has_a_key_a_type_and_a_value() {
        let given = set(&["a.b=string:x=y:z", "general.alignment=u32:64"]).unwrap();
        assert_eq!(given["a.b"].as_text(), Some("x=y:z"));
        assert_eq!(&*given["general.alignment"].root().class, "U32");
        let error = set(&["a=u8:1", "b=u8:1", "a=u8:2"]).unwrap_err().to_string();
        assert!(error.contains("a twice"), "{error}");
        for wrong in [
            "a",
            "=u32:1",
            "a=1",
            "a=u32:-1",
            "a=u9:1",
            "split.no=u16:0",
            "general.alignment=u32:3",
            "general.alignment=u32:131072",
        ] {
            assert_eq!(set(&[wrong]).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
        }
    }
}
