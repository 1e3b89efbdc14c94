//! Describes the methods by which byte-level tokenizers split text before they merge tokens.
//! `tokenizer.json` defines the method in `pre_tokenizer`, and llama.cpp has a name for each method
//! (`tokenizer.ggml.pre`). The regular expressions are those of the published tokenizers, as quoted
//! in the comments of `llama-vocab.cpp`.

use serde_json::{Value as Json, json};

/// A method of splitting text, with its name in llama.cpp.
struct Split {
    word: &'static str,
    /// The splitting step that precedes the byte-level step, in which characters represent the
    /// bytes of the text.
    by: SplitRule,
    /// Whether a piece that is itself a token remains a single token, without applying merges.
    ignores_merges: bool,
}

enum SplitRule {
    /// There is no separate step, because the byte-level step also splits the text.
    ByteLevel,
    /// Each digit is a separate piece. The rest of the text is split in the same way as for
    /// `ByteLevel`.
    Digits,
    /// A regular expression defines the pieces.
    Regex(&'static str),
}

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const KNOWN: [Split; 6] = [
    Split { word: "llama-bpe", by: SplitRule::Regex(LLAMA3), ignores_merges: true },
    // Smaug uses the same expression as Llama 3, but does not set `ignore_merges`.
    Split { word: "smaug-bpe", by: SplitRule::Regex(LLAMA3), ignores_merges: false },
    Split { word: "qwen2", by: SplitRule::Regex(QWEN2), ignores_merges: false },
    Split { word: "tekken", by: SplitRule::Regex(TEKKEN), ignores_merges: true },
    Split { word: "smollm", by: SplitRule::Digits, ignores_merges: false },
    Split { word: "gpt-2", by: SplitRule::ByteLevel, ignores_merges: false },
];

/// Lists the names that llama.cpp uses for the known methods, for error messages.
pub(crate) fn words() -> String {
    KNOWN.iter().map(|split| split.word).collect::<Vec<_>>().join(", ")
}

/// Returns llama.cpp's name for the method by which a `tokenizer.json` splits text.
pub(super) fn word_of(json: &Json) -> Option<&'static str> {
    let pre = &json["pre_tokenizer"];
    let steps: Vec<&Json> = match pre["type"].as_str()? {
        "Sequence" => pre["pretokenizers"].as_array()?.iter().collect(),
        _ => vec![pre],
    };
    let is_byte_level = |step: &Json, splits: bool| {
        // The setting `use_regex` defaults to true.
        step["type"] == "ByteLevel"
            && (step["use_regex"] != false) == splits
            && step["add_prefix_space"] == false
    };
    let is_of = |split: &&Split| match (&split.by, &*steps) {
        (SplitRule::ByteLevel, [last]) => is_byte_level(last, true),
        (SplitRule::Digits, [digits, last]) => {
            digits["type"] == "Digits" && digits["individual_digits"] == true && is_byte_level(last, true)
        }
        (SplitRule::Regex(regex), [first, last]) => {
            let behaves = first["behavior"] == "Isolated" && first["invert"] != true;
            let has = first["pattern"]["Regex"].as_str() == Some(*regex);
            first["type"] == "Split" && behaves && has && is_byte_level(last, false)
        }
        _ => false,
    };
    let ignores = json["model"]["ignore_merges"] == true;
    KNOWN.iter().filter(is_of).find(|split| split.ignores_merges == ignores).map(|split| split.word)
}

/// Returns the `pre_tokenizer` setting for a llama.cpp name, and the value of `ignore_merges`.
pub(crate) fn of_word(word: &str) -> Option<(Json, bool)> {
    let split = KNOWN.iter().find(|split| split.word == word)?;
    let byte_level = |splits: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": splits});
    let sequence = |first: Json, last: Json| json!({"type": "Sequence", "pretokenizers": [first, last]});
    let pre = match split.by {
        SplitRule::ByteLevel => byte_level(true),
        SplitRule::Digits => sequence(json!({"type": "Digits", "individual_digits": true}), byte_level(true)),
        SplitRule::Regex(regex) => {
            let pattern = json!({ "Regex": regex });
            let first = json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
            sequence(first, byte_level(false))
        }
    };
    Some((pre, split.ignores_merges))
}

/// Formats JSON for an error message, and truncates the text to the length of a line.
pub(super) fn shown(json: &Json) -> String {
    let text = json.to_string();
    if text.chars().count() <= 160 { text } else { text.chars().take(160).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_found_by_what_it_stands_for() {
        for split in &KNOWN {
            let (pre, ignores) = of_word(split.word).expect("it is known");
            let tokenizer = json!({"pre_tokenizer": pre, "model": {"ignore_merges": ignores}});
            assert_eq!(word_of(&tokenizer), Some(split.word));
        }
        let other = json!({"pre_tokenizer": {"type": "Whitespace"}, "model": {}});
        assert_eq!((word_of(&other), of_word("whatever")), (None, None));
    }
}
