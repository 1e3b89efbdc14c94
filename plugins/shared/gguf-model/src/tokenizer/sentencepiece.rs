//! Reads `tokenizer.model`, which contains the pieces of a sentencepiece tokenizer and their
//! scores. Also reads the added tokens.
//!
//! ```text
//! ModelProto     1 pieces (repeated)     2 trainer_spec
//! SentencePiece  1 piece (text)          2 score (f32)        3 type (default 1)
//! TrainerSpec    3 model_type: 1 unigram (default), 2 BPE, 3 words, 4 characters
//! ```
//! Source: `sentencepiece_model.proto` of google/sentencepiece. llama.cpp uses the same numbers for
//! token types as sentencepiece for piece types.

use super::{NORMAL, USER_DEFINED, Vocabulary};
use serde_json::Value as Json;
use tensorferry_proto::wire::{Fields, Value, WireError};
use tensorferry_sdk::{Error, Result};

const BPE: u64 = 2;

struct Piece<'a> {
    text: &'a str,
    score: f32,
    kind: u64,
}

/// Returns the tokens of `tokenizer.model`, `added_tokens.json` and `tokenizer_config.json`. Later
/// files override earlier ones.
pub(super) fn vocabulary(
    file: &[u8],
    added: Option<&Json>,
    settings: &Json,
    declared: Option<u64>,
) -> Result<Vocabulary> {
    let pieces = pieces(file)?;
    let mut vocabulary = Vocabulary::of(declared.unwrap_or(pieces.len() as u64))?;
    for (id, piece) in (0..).zip(&pieces) {
        let kind = i32::try_from(piece.kind).unwrap_or(NORMAL);
        // As in llama.cpp's converter, user-defined sentencepiece pieces are treated as ordinary
        // pieces.
        let kind = if (1..=6).contains(&kind) && kind != USER_DEFINED { kind } else { NORMAL };
        vocabulary.set(id, piece.text, kind, piece.score);
    }
    for (token, id) in added.and_then(Json::as_object).into_iter().flatten() {
        if let Some(id) = id.as_u64() {
            vocabulary.set(id, token, USER_DEFINED, super::ADDED_SCORE);
        }
    }
    for (id, token) in settings["added_tokens_decoder"].as_object().into_iter().flatten() {
        if let (Ok(id), Some(content)) = (id.parse(), token["content"].as_str()) {
            vocabulary.set_added(id, content, token["special"] == true);
        }
    }
    Ok(vocabulary)
}

fn pieces(file: &[u8]) -> Result<Vec<Piece<'_>>> {
    let broken = |broken: WireError| malformed(format!("not a sentencepiece model: {broken:?}"));
    let (mut pieces, mut kind) = (Vec::new(), 1);
    let mut fields = Fields(file);
    while let Some((number, value)) = fields.next().map_err(broken)? {
        match (number, value) {
            (1, Value::Len(bytes)) => pieces.push(piece(bytes).map_err(broken)?),
            (2, Value::Len(bytes)) => kind = model_type(bytes).map_err(broken)?,
            _ => {}
        }
    }
    let pieces = pieces.into_iter().collect::<Option<Vec<_>>>();
    let pieces = pieces.filter(|pieces| !pieces.is_empty());
    let pieces =
        pieces.ok_or_else(|| malformed("not a sentencepiece model: missing pieces or strings".to_owned()))?;
    if kind != BPE {
        return Err(Error::unsupported(
            "llama.cpp merges pairs, and this sentencepiece model works differently",
        )
        .file("tokenizer.model")
        .expected("model_type 2 (BPE)")
        .hint("pass -o names=keep to write the tensors without a tokenizer")
        .found(format!("model_type {kind}")));
    }
    Ok(pieces)
}

fn malformed(what: String) -> Error {
    Error::malformed(what).file("tokenizer.model")
}

fn piece(bytes: &[u8]) -> std::result::Result<Option<Piece<'_>>, WireError> {
    let (mut text, mut score, mut kind) = (None, 0.0, 1);
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Len(bytes)) => text = std::str::from_utf8(bytes).ok(),
            (2, Value::Fixed32(bytes)) => score = f32::from_le_bytes(bytes),
            (3, Value::Varint(number)) => kind = number,
            _ => {}
        }
    }
    Ok(text.map(|text| Piece { text, score, kind }))
}

fn model_type(bytes: &[u8]) -> std::result::Result<u64, WireError> {
    let (mut kind, mut fields) = (1, Fields(bytes));
    while let Some((number, value)) = fields.next()? {
        if let (3, Value::Varint(number)) = (number, value) {
            kind = number;
        }
    }
    Ok(kind)
}
