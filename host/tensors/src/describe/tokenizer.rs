//! Tokenizers. A tokenizer is stored in a folder without a model, as on the Hugging Face Hub, or in
//! a file's metadata.

use super::folder::text;
use super::metadata::Metadata;
use crate::steps::model_config::read_json;
use serde::Serialize;
use serde_json::Value;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{NodeKind, Source};

/// Names of files that only tokenizer folders contain.
const FILES: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "special_tokens_map.json",
];
/// Maximum length in bytes of a tokenizer file. The largest vocabularies take 40 MiB.
const MAX_BYTES: u64 = 128 << 20;

/// A tokenizer, which converts text to the token numbers that a model accepts.
#[derive(Debug, Serialize)]
pub struct Tokenizer {
    /// The tokenizer's algorithm: `BPE`, `Unigram`, `WordPiece`, or the name that the metadata
    /// contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The name of the tokenizer's class in a library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Number of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl Tokenizer {
    /// Returns the tokenizer in a folder, if the folder contains tokenizer files.
    #[must_use]
    pub fn of_folder(source: &FileSource) -> Option<Self> {
        let names = source.list("").ok()?;
        let files: Vec<String> = names.into_iter().filter(|name| FILES.contains(&name.as_str())).collect();
        if files.is_empty() {
            return None;
        }
        let read = |name| read_json(source, name, MAX_BYTES).ok().flatten();
        let whole = read(FILES[0]);
        let config = read(FILES[1]);
        let model = whole.as_ref().and_then(|json| json.get("model"));
        let tokens = match &whole {
            Some(json) => tokens(json),
            None => read("vocab.json").and_then(|json| Some(json.as_object()?.len() as u64)),
        };
        Some(Self {
            model: model.and_then(|model| text(model, "type")).map(str::to_owned),
            class: config.and_then(|config| text(&config, "tokenizer_class").map(str::to_owned)),
            tokens,
            files,
        })
    }

    /// Returns the tokenizer in the metadata of a llama.cpp file.
    pub(super) fn of_metadata(metadata: &Metadata<'_>) -> Option<Self> {
        let model = metadata.text("tokenizer.ggml.model")?;
        let listed = metadata.value("tokenizer.ggml.tokens").map(tensorferry_sdk::Value::root);
        let tokens = listed.filter(|list| list.kind == NodeKind::LIST).map(|list| list.children.len() as u64);
        Some(Self { model: Some(model), class: None, tokens, files: Vec::new() })
    }
}

/// Returns the number of tokens in a `tokenizer.json`: the tokens of its model and the added
/// tokens.
fn tokens(json: &Value) -> Option<u64> {
    let vocabulary = json.get("model")?.get("vocab")?;
    let own = match vocabulary {
        Value::Object(tokens) => tokens.len(),
        Value::Array(pieces) => pieces.len(),
        _ => return None,
    };
    let added = json.get("added_tokens").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_added = |token: &&Value| match (vocabulary, text(token, "content")) {
        (Value::Object(tokens), Some(content)) => !tokens.contains_key(content),
        (_, _) => token.get("id").and_then(Value::as_u64).is_some_and(|id| id >= own as u64),
    };
    Some((own + added.iter().filter(is_added).count()) as u64)
}
