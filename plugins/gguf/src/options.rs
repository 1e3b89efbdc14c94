//! Options of the reader and the writer.

use crate::dequantize::Float;
use crate::header::valid_alignment;
use crate::quantize::Rules;
use crate::set::SPLIT_KEYS;
use crate::{ALIGNMENT_KEY, MAX_ALIGNMENT, metadata};
use std::collections::BTreeMap;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{OptionSpec, Options, Result, TypedOption, Value};

/// Whether to read only the input file if it is part of a split.
pub(crate) const MEMBER_IS_ALONE: TypedOption<bool> = TypedOption::choice(
    Reader,
    "shard",
    &[("set", false), ("alone", true)],
    "if a split file is named: set reads the whole model, alone only that file",
);
pub(crate) const NAMES_ARE_OF_HF: TypedOption<bool> = TypedOption::choice(
    Reader,
    "names",
    &[("keep", false), ("hf", true)],
    "tensor names: keep as in llama.cpp, or hf as in transformers, with its row order, config.json and tokenizer files \
     (llama, qwen2, qwen3)",
);
/// The dtype to which quantized blocks are dequantized.
pub(crate) const DEQUANTIZE: TypedOption<Option<Float>> = TypedOption::choice(
    Reader,
    "dequantize",
    &[("no", None), ("f32", Some(Float::F32)), ("f16", Some(Float::F16)), ("bf16", Some(Float::Bf16))],
    "dequantize blocks to this dtype (like --step dequantize)",
);
const KEEPS_NAMES: TypedOption<bool> = TypedOption::choice(
    Writer,
    "names",
    &[("auto", false), ("keep", true)],
    "tensor names: auto converts transformers folders (Llama, Mistral, Qwen 2 and 3) to llama.cpp names, row order and \
     metadata, and rejects other architectures; keep leaves names unchanged",
);
const LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "GGUF file that supplies metadata, tensor order and types; -o set= and -o quantize= override it",
);
const SET: TypedOption<Vec<String>> = TypedOption::list(
    Writer,
    "set",
    "metadata entry KEY=TYPE:VALUE (general.architecture=string:llama, llama.block_count=u32:2), which overrides other \
     sources (repeatable)",
);

const QUANTIZE: TypedOption<Vec<String>> = TypedOption::list(
    Writer,
    "quantize",
    "quantize floats to q8_0, q4_0, q4_1, q5_0, q5_1, tq1_0, tq2_0 or mxfp4, or per name with GLOB=TYPE (first match \
     wins); norms, biases, routers and convolutions become F32, rows of partial blocks F16",
);

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

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Metadata entries from `-o set=`.
    pub(crate) set: BTreeMap<String, Value>,
    /// Whether the tensors of a model folder keep their names and row order.
    pub(crate) keeps_names: bool,
    /// Path of the file passed as `-o like=`.
    pub(crate) like: Option<String>,
    pub(crate) quantize: Rules,
}

impl WriteOptions {
    /// Parses the options. The host has already checked them.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let mut set = BTreeMap::new();
        for text in SET.get(options)? {
            let (key, value) = entry(&text)?;
            if set.insert(key.clone(), value).is_some() {
                return Err(SET.refuse("each key once", format!("{key} twice")));
            }
        }
        let given = QUANTIZE.get(options)?;
        let refuse = |expected| {
            let text = given.join(",").to_ascii_lowercase();
            let error = QUANTIZE.refuse(expected, format!("{text:?}"));
            if text.contains("_k") || text.contains("iq") {
                return error.hint("convert without quantize, then run llama.cpp's llama-quantize");
            }
            error
        };
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
        return Err(SET.refuse("a key that does not describe a split", key));
    }
    if key == ALIGNMENT_KEY && valid_alignment(&value).is_none() {
        let expected = format!("{ALIGNMENT_KEY}=u32: followed by a power of two, at most {MAX_ALIGNMENT}");
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
