//! Reads the `tokenizer.json` of a byte-level BPE tokenizer. Each byte is represented by a
//! character, and merges are ordered.

use super::{NORMAL, added, empty, malformed, merges, splits, unsupported_error, vocab};
use crate::entries::Entries;
use serde_json::Value as Json;
use tensorferry_sdk::Result;

pub(super) fn add_to(
    entries: &mut Entries,
    json: &Json,
    declared: Option<u64>,
    pre: Option<&str>,
) -> Result<()> {
    match &json["normalizer"] {
        Json::Null => {}
        // llama.cpp does not normalize its input, but almost all text is already in this normal
        // form.
        normalizer if normalizer["type"] == "NFC" => {}
        normalizer => {
            return Err(unsupported_error(&format!("the normalizer {}", splits::shown(normalizer))));
        }
    }
    let pre = match pre {
        Some(pre) => pre,
        None => splits::word_of(json).ok_or_else(|| {
            unsupported_error(&format!(
                "this way of splitting text, {}",
                splits::shown(&json["pre_tokenizer"])
            ))
            .expected(format!("one of {}", splits::words()))
            .hint("pass -o set=tokenizer.ggml.pre=string:WORD with the word for an equivalent split")
        })?,
    };
    let mut vocabulary = empty(json, declared)?;
    for (token, id) in vocab(json)? {
        vocabulary.set(id, token, NORMAL, 0.0);
    }
    for (id, token, is_special) in added(json) {
        vocabulary.set_added(id, token, is_special);
    }
    let merges = merges(json)?;
    if merges.is_empty() {
        return Err(malformed("model.merges is empty"));
    }
    // In GGUF, a space separates the two parts of a merge. A space inside a part is therefore
    // replaced with the character that represents the byte of a space.
    let merge =
        |(one, other): &(&str, &str)| format!("{} {}", one.replace(' ', "Ġ"), other.replace(' ', "Ġ"));
    entries.text("tokenizer.ggml.model", "gpt2");
    entries.text("tokenizer.ggml.pre", pre);
    entries.texts("tokenizer.ggml.tokens", &vocabulary.tokens)?;
    entries.i32s("tokenizer.ggml.token_type", vocabulary.types.iter().copied())?;
    entries.texts("tokenizer.ggml.merges", &merges.iter().map(merge).collect::<Vec<_>>())
}
