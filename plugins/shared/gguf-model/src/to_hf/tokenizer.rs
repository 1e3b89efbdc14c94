//! Converts `tokenizer.*` metadata to `tokenizer.json` and `tokenizer_config.json`, in the format
//! of the `tokenizers` library.

use crate::entries::MetadataView;
use crate::tokenizer::special::SPECIAL;
use crate::tokenizer::{CONTROL, SPACE, UNKNOWN, UNUSED, USER_DEFINED, splits};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
/// Maximum sum of the squared token lengths in bytes. This sum bounds the work, because each token
/// is split at every position. Sentencepiece's longest tokens have 16 characters of three bytes
/// each. Gemma has 262,144 tokens. If all of them had this length, the sum would be about 600
/// million.
const MAX_CUT_BYTES: usize = 1 << 30;
/// Maximum number of merges per token. Llama and Gemma have two to three. Up to `MIN_MERGE_LIMIT`
/// merges are always allowed.
const MAX_MERGES: usize = 16;
const MIN_MERGE_LIMIT: usize = 64 << 10;

/// Returns whether the written files represent a metadata key.
pub(super) fn holds(key: &str) -> bool {
    let is_of_tokens = |key: &str| {
        matches!(key, "model" | "pre" | "tokens" | "token_type" | "scores" | "merges" | "add_space_prefix")
            || matches!(key, "add_bos_token" | "add_eos_token" | "add_sep_token")
    };
    key == "tokenizer.chat_template"
        || SPECIAL.iter().any(|(_, special)| *special == key)
        || key.strip_prefix("tokenizer.ggml.").is_some_and(is_of_tokens)
}

/// Returns the tokenizer files, or the reason why the metadata cannot be converted.
pub(super) fn files(read: &MetadataView<'_>) -> Result<[(&'static str, Json); 2], String> {
    let tokens = read.texts(TOKENS).ok_or_else(|| format!("{TOKENS} is missing"))?;
    let types = read.i32s(TYPES).filter(|types| types.len() == tokens.len());
    let types = types.ok_or_else(|| format!("{TYPES} does not have a number for each token"))?;
    let tokenizer = Tokenizer { read, tokens, types };
    let json = match read.text("tokenizer.ggml.model") {
        Some("gpt2") => tokenizer.of_bytes()?,
        Some("llama") => tokenizer.of_pieces()?,
        other => {
            let other = other.unwrap_or("nothing");
            return Err(format!("unknown kind of tokenizer {other:?}; ferry supports gpt2 and llama"));
        }
    };
    Ok([("tokenizer.json", json), ("tokenizer_config.json", tokenizer.settings())])
}

struct Tokenizer<'a> {
    read: &'a MetadataView<'a>,
    tokens: Vec<&'a str>,
    types: Vec<i32>,
}

impl Tokenizer<'_> {
    /// Converts a byte-level BPE tokenizer.
    fn of_bytes(&self) -> Result<Json, String> {
        let word = self.read.text("tokenizer.ggml.pre").unwrap_or("default");
        let (pre, ignores_merges) = splits::of_word(word).ok_or_else(|| {
            format!("unknown text-splitting method {word:?}; known methods are {}", splits::words())
        })?;
        let merges = self.read.texts(MERGES).ok_or_else(|| format!("{MERGES} is missing"))?;
        let merges: Option<Vec<Json>> = merges
            .iter()
            .map(|merge| merge.split_once(' ').map(|(one, other)| json!([one, other])))
            .collect();
        let merges = merges.ok_or_else(|| format!("{MERGES} contains an entry that is not a pair"))?;
        // If the file does not contain this setting, llama.cpp uses the same default.
        let adds_bos = matches!(word, "llama-bpe" | "tekken");
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true});
        Ok(json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": self.added(),
            "normalizer": if word == "qwen2" { json!({"type": "NFC"}) } else { Json::Null },
            "pre_tokenizer": pre,
            "post_processor": self.template(adds_bos).unwrap_or_else(|| byte_level.clone()),
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": null,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": false,
                "byte_fallback": false,
                "ignore_merges": ignores_merges,
                "vocab": self.vocab(),
                "merges": merges,
            },
        }))
    }

    /// Converts a sentencepiece tokenizer, which merges tokens by their scores.
    fn of_pieces(&self) -> Result<Json, String> {
        let scores = self.read.f32s(SCORES).filter(|scores| scores.len() == self.tokens.len());
        let scores = scores.ok_or_else(|| format!("{SCORES} does not have a number for each token"))?;
        let adds_space = self.read.bool("tokenizer.ggml.add_space_prefix").unwrap_or(true);
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
        let prepend = json!({"type": "Prepend", "prepend": SPACE});
        let normalizers = if adds_space { vec![prepend, replace] } else { vec![replace] };
        let mut decoders = vec![
            json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if adds_space {
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        let unknown = self.types.iter().position(|&kind| kind == UNKNOWN).map(|id| self.tokens[id]);
        Ok(json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": self.added(),
            "normalizer": {"type": "Sequence", "normalizers": normalizers},
            "pre_tokenizer": null,
            "post_processor": self.template(true),
            "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": unknown,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": true,
                "byte_fallback": true,
                "ignore_merges": false,
                "vocab": self.vocab(),
                "merges": self.merges_by(&scores)?,
            },
        }))
    }

    /// Returns all pairs of tokens that form another token, in descending order of score.
    /// transformers uses the same method to convert sentencepiece models.
    fn merges_by(&self, scores: &[f32]) -> Result<Vec<Json>, String> {
        let is_piece = |id: usize| ![CONTROL, UNKNOWN, UNUSED, USER_DEFINED].contains(&self.types[id]);
        let ids: HashMap<&str, usize> = self
            .tokens
            .iter()
            .enumerate()
            .filter(|(id, _)| is_piece(*id))
            .map(|(id, token)| (*token, id))
            .collect();
        let squares = ids.keys().map(|token| token.len().saturating_mul(token.len()));
        if squares.fold(0, usize::saturating_add) > MAX_CUT_BYTES {
            return Err("the tokens are too long to find the merges that form them".to_owned());
        }
        let max = self.tokens.len().saturating_mul(MAX_MERGES).saturating_add(MIN_MERGE_LIMIT);
        let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
        for (id, token) in self.tokens.iter().enumerate().filter(|(id, _)| is_piece(*id)) {
            let cuts = token.char_indices().skip(1).map(|(at, _)| token.split_at(at));
            let mut own: Vec<_> =
                cuts.filter_map(|(one, other)| Some((id, *ids.get(one)?, *ids.get(other)?))).collect();
            own.sort_unstable();
            pairs.extend(own);
            if pairs.len() > max {
                return Err(format!("more than {max} merges form its tokens"));
            }
        }
        pairs.sort_by(|a, b| scores[b.0].total_cmp(&scores[a.0]));
        Ok(pairs.iter().map(|(_, one, other)| json!([self.tokens[*one], self.tokens[*other]])).collect())
    }

    fn vocab(&self) -> Map<String, Json> {
        let used = self.tokens.iter().enumerate().filter(|(id, _)| self.types[*id] != UNUSED);
        used.map(|(id, token)| ((*token).to_owned(), json!(id))).collect()
    }

    fn added(&self) -> Vec<Json> {
        let is_added = |id: &usize| [CONTROL, UNKNOWN, USER_DEFINED].contains(&self.types[*id]);
        let token = |id: usize| {
            json!({
                "id": id,
                "content": self.tokens[id],
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": self.types[id] != USER_DEFINED,
            })
        };
        (0..self.tokens.len()).filter(is_added).map(token).collect()
    }

    /// Returns the token for a role such as `bos` or `eos`, and its ID.
    fn special(&self, word: &str) -> Option<(&str, usize)> {
        let (_, key) = SPECIAL.iter().find(|(known, _)| *known == word)?;
        let id = usize::try_from(self.read.number(key)?).ok()?;
        Some((self.tokens.get(id)?, id))
    }

    fn adds(&self, word: &str, default: bool) -> Option<(&str, usize)> {
        let says = self.read.bool(&format!("tokenizer.ggml.add_{word}_token")).unwrap_or(default);
        self.special(word).filter(|_| says)
    }

    /// Returns the template for the tokens that surround the input string. Returns `None` if no
    /// tokens are added.
    fn template(&self, adds_bos: bool) -> Option<Json> {
        let (bos, eos) = (self.adds("bos", adds_bos), self.adds("eos", false));
        let around = |sequence: &str, kind: u32| -> Vec<Json> {
            let special = |(token, _): (&str, usize)| json!({"SpecialToken": {"id": token, "type_id": kind}});
            let text = json!({"Sequence": {"id": sequence, "type_id": kind}});
            bos.map(special).into_iter().chain([text]).chain(eos.map(special)).collect()
        };
        let entry = |(token, id): (&str, usize)| {
            (token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]}))
        };
        let special: Map<String, Json> = bos.into_iter().chain(eos).map(entry).collect();
        let pair = [around("A", 0), around("B", 1)].concat();
        (!special.is_empty()).then(|| {
            json!({
                "type": "TemplateProcessing",
                "single": around("A", 0),
                "pair": pair,
                "special_tokens": special,
            })
        })
    }

    fn settings(&self) -> Json {
        let mut settings = Map::new();
        for (word, _) in SPECIAL {
            settings.extend(self.special(word).map(|(token, _)| (format!("{word}_token"), json!(token))));
        }
        for word in ["bos", "eos"] {
            let key = format!("add_{word}_token");
            let says = self.read.bool(&format!("tokenizer.ggml.{key}"));
            settings.extend(says.map(|says| (key, json!(says))));
        }
        let adds_space = self.read.bool("tokenizer.ggml.add_space_prefix");
        settings.extend(adds_space.map(|says| ("add_prefix_space".to_owned(), json!(says))));
        let template = self.read.text("tokenizer.chat_template");
        settings.extend(template.map(|template| ("chat_template".to_owned(), json!(template))));
        settings.insert("clean_up_tokenization_spaces".to_owned(), json!(false));
        settings.insert("tokenizer_class".to_owned(), json!("PreTrainedTokenizerFast"));
        Json::Object(settings)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::collections::BTreeMap;

    fn merges(tokens: &[String]) -> Result<Vec<Json>, String> {
        let metadata = BTreeMap::new();
        let tokenizer = Tokenizer {
            read: &MetadataView(&metadata),
            tokens: tokens.iter().map(String::as_str).collect(),
            types: vec![1; tokens.len()],
        };
        tokenizer.merges_by(&vec![0.0; tokens.len()])
    }

    #[test]
    fn merges_are_the_pairs_that_make_tokens() {
        let tokens = ["a", "b", "ab", "aab"].map(str::to_owned);
        assert_eq!(merges(&tokens).unwrap(), [json!(["a", "b"]), json!(["a", "ab"])]);
        // A long run of spaces can be split into shorter runs in many ways.
        let runs: Vec<String> = (1..=64).map(|len| SPACE.repeat(len)).collect();
        assert_eq!(merges(&runs).unwrap().len(), 63 * 64 / 2);
    }

    /// Without limits, converting any of these inputs would take seconds and gigabytes of memory,
    /// although each input is only a few megabytes long.
    #[test]
    fn tokens_that_are_cut_too_often_are_refused() {
        assert!(merges(&["a".repeat(80_000)]).unwrap_err().contains("too long"));
        let grid: Vec<String> = (0..200)
            .flat_map(|one| (0..200 - one).map(move |other| "a".repeat(one) + &"b".repeat(other)))
            .collect();
        assert!(merges(&grid).unwrap_err().contains("merges"));
    }
}
