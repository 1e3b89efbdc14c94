//! Converts the tokenizer of a model folder to `tokenizer.*` metadata.

mod byte_level;
mod fallback;
mod sentencepiece;
pub(crate) mod special;
pub(crate) mod splits;

use crate::config::Config;
use crate::entries::Entries;
use crate::folder::Folder;
use serde_json::Value as Json;
use tensorferry_sdk::{Error, Result};

/// llama.cpp's token types (`llama_token_type`).
pub(crate) const NORMAL: i32 = 1;
pub(crate) const UNKNOWN: i32 = 2;
pub(crate) const CONTROL: i32 = 3;
pub(crate) const USER_DEFINED: i32 = 4;
pub(crate) const UNUSED: i32 = 5;
pub(crate) const BYTE: i32 = 6;

/// The character that represents a space in sentencepiece tokens.
pub(crate) const SPACE: &str = "\u{2581}";
/// Scores of added tokens and of missing tokens. They are lower than the scores of the model's own
/// tokens.
const ADDED_SCORE: f32 = -1000.0;
const MISSING_SCORE: f32 = -10_000.0;
/// Maximum number of tokens, which is far above the size of any real vocabulary. It limits the
/// token IDs in hostile files.
const MAX_TOKENS: u64 = 1 << 24;

/// The tokens of a model, ordered by ID.
pub(crate) struct Vocabulary {
    pub(crate) tokens: Vec<String>,
    pub(crate) types: Vec<i32>,
    /// One score per token, for tokenizers that use scores.
    pub(crate) scores: Vec<f32>,
}

impl Vocabulary {
    /// Returns a vocabulary of `len` placeholder tokens.
    fn of(len: u64) -> Result<Self> {
        if len > MAX_TOKENS {
            return Err(Error::limit("too many tokens").expected(format!("at most {MAX_TOKENS}")).found(len));
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Ok(Self {
            tokens: (0..len).map(|id| format!("[PAD{id}]")).collect(),
            types: vec![UNUSED; len],
            scores: vec![MISSING_SCORE; len],
        })
    }

    /// Sets the token with this ID. Does nothing if the ID is outside the vocabulary.
    fn set(&mut self, id: u64, token: &str, kind: i32, score: f32) {
        let Some(id) = usize::try_from(id).ok().filter(|id| *id < self.tokens.len()) else { return };
        token.clone_into(&mut self.tokens[id]);
        (self.types[id], self.scores[id]) = (kind, score);
    }

    /// Sets an added token. The token becomes a control token if it is marked as special, or if it
    /// looks like a control token.
    fn set_added(&mut self, id: u64, token: &str, is_special: bool) {
        if is_special || looks_special(token) {
            self.set(id, token, CONTROL, ADDED_SCORE);
        } else {
            self.set(id, &token.replace(SPACE, " "), USER_DEFINED, ADDED_SCORE);
        }
    }
}

/// Returns whether a token looks like a control token (`does_token_look_special` in llama.cpp).
/// Some models do not mark their control tokens as special.
fn looks_special(token: &str) -> bool {
    let is_between = |start: &str, end: &str| token.starts_with(start) && token.ends_with(end);
    matches!(token, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || is_between("<|", "|>")
        || is_between("<｜", "｜>")
        || is_between("<unused", ">")
}

/// Adds the tokenizer of a folder to the metadata.
pub(crate) fn add_to(
    entries: &mut Entries,
    folder: &Folder<'_>,
    config: &Config,
    pre: Option<&str>,
) -> Result<()> {
    let settings = folder.json("tokenizer_config.json")?.unwrap_or(Json::Null);
    let json = folder.json("tokenizer.json")?;
    let pieces = folder.bytes("tokenizer.model")?;
    let is_merged = match (pieces, &json) {
        (Some(pieces), _) => {
            let added = folder.json("added_tokens.json")?;
            let vocabulary =
                sentencepiece::vocabulary(&pieces, added.as_ref(), &settings, config.vocabulary)?;
            add_scored(entries, &vocabulary)?;
            false
        }
        (None, Some(json)) if json["model"]["type"] != "BPE" => {
            let kind = json["model"]["type"].as_str().unwrap_or("unknown");
            return Err(
                unsupported_error(&format!("a {kind} tokenizer")).expected("byte-level or sentencepiece BPE")
            );
        }
        (None, Some(json)) if fallback::has_byte_fallback(json) => {
            add_scored(entries, &fallback::vocabulary(json, config.vocabulary)?)?;
            false
        }
        (None, Some(json)) => {
            byte_level::add_to(entries, json, config.vocabulary, pre)?;
            true
        }
        (None, None) => {
            return Err(Error::unsupported(
                "the folder has no tokenizer, and llama.cpp does not load models without one",
            )
            .expected("tokenizer.model or tokenizer.json")
            .hint("pass -o names=keep to write the tensors without a tokenizer"));
        }
    };
    let declared = settings["add_prefix_space"].as_bool().filter(|_| config.architecture.gguf == "llama");
    // For a sentencepiece tokenizer, llama.cpp adds a space before each text unless the GGUF file
    // disables this.
    let lacks_space = || json.as_ref().filter(|json| !is_merged && !prepends(json)).map(|_| false);
    if let Some(adds) = declared.or_else(lacks_space) {
        entries.bool("tokenizer.ggml.add_space_prefix", adds);
    }
    let template = match &settings["chat_template"] {
        Json::String(text) => Some(text.clone()),
        _ => folder.text("chat_template.jinja")?,
    };
    if let Some(template) = template {
        entries.text("tokenizer.chat_template", &template);
    }
    let is_of_pieces = !is_merged;
    special::add_to(entries, json.as_ref(), &settings, config, is_of_pieces)
}

/// Returns whether a sentencepiece tokenizer adds a space before the input string.
fn prepends(json: &Json) -> bool {
    let is_prepend = |step: &Json| step["type"] == "Prepend";
    let is_metaspace = |step: &Json| {
        step["type"] == "Metaspace" && step["prepend_scheme"] != "never" && step["add_prefix_space"] != false
    };
    let has = |of: &Json, steps: &str, is_one: &dyn Fn(&Json) -> bool| {
        is_one(of) || of[steps].as_array().is_some_and(|steps| steps.iter().any(is_one))
    };
    has(&json["normalizer"], "normalizers", &is_prepend)
        || has(&json["pre_tokenizer"], "pretokenizers", &is_metaspace)
}

fn add_scored(entries: &mut Entries, vocabulary: &Vocabulary) -> Result<()> {
    entries.text("tokenizer.ggml.model", "llama");
    entries.text("tokenizer.ggml.pre", "default");
    entries.texts("tokenizer.ggml.tokens", &vocabulary.tokens)?;
    entries.f32s("tokenizer.ggml.scores", vocabulary.scores.iter().copied())?;
    entries.i32s("tokenizer.ggml.token_type", vocabulary.types.iter().copied())
}

fn unsupported_error(what: &str) -> Error {
    Error::unsupported(format!("llama.cpp does not support {what}")).file("tokenizer.json")
}

fn malformed(what: &str) -> Error {
    Error::malformed(what).file("tokenizer.json")
}

/// Returns the tokens of `model.vocab` with their IDs.
fn vocab(json: &Json) -> Result<impl Iterator<Item = (&str, u64)>> {
    let vocab = json["model"]["vocab"].as_object().ok_or_else(|| malformed("model.vocab is missing"))?;
    if vocab.values().any(|id| id.as_u64().is_none()) {
        return Err(malformed("an ID in model.vocab is not a number"));
    }
    Ok(vocab.iter().filter_map(|(token, id)| Some((token.as_str(), id.as_u64()?))))
}

/// Returns the ID of each added token, the token itself, and whether it is special.
fn added(json: &Json) -> impl Iterator<Item = (u64, &str, bool)> {
    json["added_tokens"].as_array().into_iter().flatten().filter_map(|token| {
        Some((token["id"].as_u64()?, token["content"].as_str()?, token["special"] == true))
    })
}

/// Returns a vocabulary of placeholders. Its size is the number of tokens in the configuration, or
/// the number of actual tokens if the configuration has none.
fn empty(json: &Json, declared: Option<u64>) -> Result<Vocabulary> {
    let ids = vocab(json)?.map(|(_, id)| id).chain(added(json).map(|(id, ..)| id));
    let required = ids.max().map_or(0, |last| last.saturating_add(1));
    match declared {
        Some(declared) if declared < required => Err(malformed("a token is beyond the vocabulary")
            .expected(format!("IDs below {declared}, the vocab_size of config.json"))
            .found(required - 1)),
        declared => Vocabulary::of(declared.unwrap_or(required)),
    }
}

/// Returns the pairs in `model.merges`. A pair is a string that contains a space, or a list of two
/// strings.
fn merges<'j>(json: &'j Json) -> Result<Vec<(&'j str, &'j str)>> {
    let merges = json["model"]["merges"].as_array().ok_or_else(|| malformed("model.merges is missing"))?;
    let pair = |merge: &'j Json| match merge {
        Json::String(text) => text.split_once(' '),
        Json::Array(parts) => parts.first().and_then(Json::as_str).zip(parts.get(1).and_then(Json::as_str)),
        _ => None,
    };
    merges.iter().map(pair).collect::<Option<Vec<_>>>().ok_or_else(|| malformed("a merge is not a pair"))
}
