//! The page document of a comparison: the differences as in `diff --json`, largest first.

use super::truncated;
use serde_json::{Value, json};

/// Maximum number of characters of a value.
const MAX_VALUE_CHARACTERS: usize = 2_000;

/// A comparison and its result, as shown on a page.
pub(crate) struct DifferencesPage<'a> {
    /// The two inputs, as the user named them.
    pub(crate) sides: [String; 2],
    /// The JSON document that `diff --json` prints.
    pub(crate) found: Value,
    /// The verdict, as one line.
    pub(crate) verdict: &'a str,
    /// The settings of the comparison, as keys and values.
    pub(crate) facts: Vec<(&'static str, String)>,
}

pub(crate) fn differences(shown: DifferencesPage<'_>) -> Value {
    let DifferencesPage { sides: [a, b], mut found, verdict, mut facts } = shown;
    for (key, words) in [("tensors", "tensors in A"), ("columns", "columns in A or B")] {
        facts.extend(found[key].as_u64().map(|count| (words, count.to_string())));
    }
    for (side, words) in [("a", "records in A"), ("b", "records in B")] {
        facts.extend(found["records"][side].as_u64().map(|count| (words, count.to_string())));
    }
    let mut all = found["differences"].take();
    for difference in all.as_array_mut().into_iter().flatten() {
        for side in ["a", "b"] {
            if let Some(text) = difference[side].as_str() {
                difference[side] = truncated(text, MAX_VALUE_CHARACTERS).0.into();
            } else if difference[side].is_null()
                && let Some(difference) = difference.as_object_mut()
            {
                // The index expression above inserted null for a missing key. For the other kinds
                // of differences, null has no meaning and is removed.
                let is_pair = matches!(difference["kind"].as_str(), Some("attribute" | "metadata"));
                if !is_pair {
                    difference.remove(side);
                }
            }
        }
    }
    json!({
        "kind": "diff", "version": env!("CARGO_PKG_VERSION"), "title": format!("{a} and {b}"),
        "a": a, "b": b, "equal": found["equal"], "verdict": verdict.trim_end(), "facts": facts, "differences": all,
    })
}
