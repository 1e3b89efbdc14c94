//! Determines the special tokens at the beginning and end of the input, and whether a tokenizer
//! adds these tokens automatically (`SpecialVocab` in gguf-py).

use crate::config::Config;
use crate::entries::Entries;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use tensorferry_sdk::Result;

/// The name of each special token in transformers, and the GGUF key for its ID.
pub(crate) const SPECIAL: [(&str, &str); 7] = [
    ("bos", "tokenizer.ggml.bos_token_id"),
    ("eos", "tokenizer.ggml.eos_token_id"),
    ("unk", "tokenizer.ggml.unknown_token_id"),
    // llama.cpp misspells this key in the same way.
    ("sep", "tokenizer.ggml.seperator_token_id"),
    ("pad", "tokenizer.ggml.padding_token_id"),
    ("cls", "tokenizer.ggml.cls_token_id"),
    ("mask", "tokenizer.ggml.mask_token_id"),
];

/// Vocabulary sizes from which llama.cpp recognizes specific models.
const CODE_LLAMA: u64 = 32_016;
const GRANITE: u64 = 49_152;

/// Adds the IDs of special tokens, and the settings that define which of these tokens are added to
/// the input. For a sentencepiece tokenizer, IDs outside the vocabulary are ignored.
pub(super) fn add_to(
    entries: &mut Entries,
    tokenizer: Option<&Json>,
    settings: &Json,
    config: &Config,
    is_of_pieces: bool,
) -> Result<()> {
    let mut adds: BTreeMap<&str, bool> = BTreeMap::new();
    let token = |word: &str| {
        let entry = &settings[format!("{word}_token")];
        entry.as_str().or_else(|| entry["content"].as_str())
    };
    if let Some(tokenizer) = tokenizer {
        of_processor(&tokenizer["post_processor"], &token, settings.is_null(), &mut adds);
    }
    let added = tokenizer.map(|tokenizer| super::added(tokenizer).collect::<Vec<_>>()).unwrap_or_default();
    let is_there = |id: &u64| !is_of_pieces || config.vocabulary.is_none_or(|len| *id < len);
    for (word, key) in SPECIAL {
        if let Some(says) = settings[format!("add_{word}_token")].as_bool() {
            adds.entry(word).or_insert(says);
        }
        let of_tokenizer = token(word)
            .and_then(|text| added.iter().find(|(_, content, _)| *content == text).map(|(id, ..)| *id));
        let id = of_tokenizer.or_else(|| config.json.get(&format!("{word}_token_id"))?.as_u64());
        if let Some(id) = id.filter(is_there) {
            entries.u32(key, id)?;
        }
    }
    if config.architecture.gguf == "llama" {
        if config.vocabulary == Some(CODE_LLAMA) {
            for (word, id) in [("prefix", 32_007), ("suffix", 32_008), ("middle", 32_009), ("eot", 32_010)] {
                entries.u32(&format!("tokenizer.ggml.{word}_token_id"), id)?;
            }
        }
        if config.vocabulary == Some(GRANITE) {
            adds.insert("bos", false);
        }
    }
    for (word, adds) in adds.into_iter().filter(|(word, _)| ["bos", "eos", "sep"].contains(word)) {
        entries.bool(&format!("tokenizer.ggml.add_{word}_token"), adds);
    }
    Ok(())
}

/// Given a template for a pair of strings, returns the steps between the two strings.
fn between(pair: &Json) -> &[Json] {
    let pair = pair.as_array().map_or(&[][..], Vec::as_slice);
    let place = |text: &str| pair.iter().position(|place| place["Sequence"]["id"] == text);
    place("A").zip(place("B")).and_then(|(one, other)| pair.get(one + 1..other)).unwrap_or_default()
}

/// Finds the tokens that `post_processor` adds. In a template, these tokens are at both ends.
fn of_processor<'t>(
    processor: &Json,
    token: &dyn Fn(&str) -> Option<&'t str>,
    is_unnamed: bool,
    adds: &mut BTreeMap<&str, bool>,
) {
    let processors = match processor["processors"].as_array() {
        Some(processors) => processors.as_slice(),
        None => std::slice::from_ref(processor),
    };
    for processor in processors {
        match processor["type"].as_str() {
            Some("ByteLevel") => {
                adds.entry("bos").or_insert(false);
                adds.entry("eos").or_insert(false);
            }
            Some("TemplateProcessing") => {
                let Some(single) = processor["single"].as_array().filter(|single| single.len() > 1) else {
                    continue;
                };
                for (place, word) in [(single.first(), "bos"), (single.last(), "eos")] {
                    let id = place.and_then(|place| place["SpecialToken"]["id"].as_str());
                    if let Some(id) = id {
                        adds.insert(word, is_unnamed || token(word).is_none_or(|text| text == id));
                    }
                }
                let is_sep = |place: &Json| {
                    let id = place["SpecialToken"]["id"].as_str();
                    id.is_some() && (id == token("sep") || id == token("eos"))
                };
                let ends = single.last().is_some_and(|place| !place["SpecialToken"].is_null());
                let between = between(&processor["pair"]);
                if let Some(first) = between.first() {
                    let second = between.get(1).filter(|_| between.len() == 2);
                    adds.insert("sep", is_sep(first) && !ends || second.is_some_and(is_sep));
                }
            }
            _ => {}
        }
    }
}
