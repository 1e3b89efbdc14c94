//! Reads the `tokenizer.json` of a sentencepiece model. It is a BPE tokenizer that has a fallback
//! token for each byte, `<0x00>` to `<0xFF>`.
//!
//! llama.cpp merges the pair with the highest score first, but `tokenizer.json` defines the order
//! of merges explicitly. ferry therefore sets the score of a token to the negated index of the
//! first merge that forms the token. llama.cpp then merges in the order of `tokenizer.json`.
//! (llama.cpp's converter sets the score of all tokens to -1000, so that llama.cpp merges from left
//! to right.)

use super::{BYTE, CONTROL, NORMAL, UNKNOWN, Vocabulary, added, empty, merges, vocab};
use serde_json::Value as Json;
use std::collections::HashMap;
use tensorferry_sdk::Result;

pub(super) fn has_byte_fallback(json: &Json) -> bool {
    json["model"]["byte_fallback"] == true
}

pub(super) fn vocabulary(json: &Json, declared: Option<u64>) -> Result<Vocabulary> {
    let mut vocabulary = empty(json, declared)?;
    let mut scores: HashMap<String, f32> = HashMap::new();
    for (place, (one, other)) in merges(json)?.into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "indices below 2^24 are exact")]
        scores.entry([one, other].concat()).or_insert(-(place as f32));
    }
    let last = -f32::from(u16::MAX) * 64.0;
    let unknown = json["model"]["unk_token"].as_str();
    for (token, id) in vocab(json)? {
        let kind = if Some(token) == unknown {
            UNKNOWN
        } else if is_byte(token) {
            BYTE
        } else {
            NORMAL
        };
        let score = if kind == NORMAL { scores.get(token).copied().unwrap_or(last) } else { 0.0 };
        vocabulary.set(id, token, kind, score);
    }
    for (id, token, is_special) in added(json) {
        if Some(token) != unknown {
            vocabulary.set_added(id, token, is_special);
            if let Some(CONTROL) = usize::try_from(id).ok().and_then(|id| vocabulary.types.get(id).copied()) {
                vocabulary.set(id, token, CONTROL, 0.0);
            }
        }
    }
    Ok(vocabulary)
}

/// Returns whether a token represents a single byte.
fn is_byte(token: &str) -> bool {
    let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}
