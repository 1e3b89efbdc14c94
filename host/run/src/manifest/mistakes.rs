//! A mistake is an error in a manifest, with its position and an optional suggestion.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mistake {
    /// The line number, starting at 1.
    pub line: usize,
    /// The column in characters, starting at 1.
    pub column: usize,
    pub message: String,
    /// How to fix the mistake.
    pub suggestion: Option<String>,
}

/// All mistakes in the text of a manifest.
#[derive(Debug, Clone)]
pub(super) struct Mistakes {
    text: String,
    list: Vec<Mistake>,
}

impl Mistakes {
    /// Creates an empty list of mistakes for the text of a manifest.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), list: Vec::new() }
    }

    /// Adds a mistake at a position in the text.
    pub(super) fn add(&mut self, at: &Range<usize>, message: impl Into<String>, suggestion: Option<String>) {
        let before = self.text.get(..at.start).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[start..].chars().count() + 1;
        let mistake = Mistake { line, column, message: message.into(), suggestion };
        if !self.list.contains(&mistake) {
            self.list.push(mistake);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the mistakes sorted by their position in the text.
    pub(super) fn sorted(mut self) -> Vec<Mistake> {
        self.list.sort();
        self.list
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; {suggestion}"),
            None => Ok(()),
        }
    }
}

/// Returns `did you mean ...?` with the most similar known word. If no word is similar and there
/// are few known words, lists them.
pub(super) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const MAX_LISTED: usize = 24;
    let known: Vec<&str> = known.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    match tensorferry::suggest(word, known.iter().copied()) {
        Some(near) => Some(format!("did you mean {near:?}?")),
        None if (1..=MAX_LISTED).contains(&known.len()) => Some(format!("known names: {}", known.join(", "))),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let mut mistakes = Mistakes::of("a\nü = bcd\n");
        mistakes.add(&(7..8), "wrong", suggest("verfy", ["verify", "to"]));
        assert_eq!(mistakes.sorted()[0].to_string(), "2:5: wrong; did you mean \"verify\"?");
    }

    #[test]
    fn what_is_far_away_is_not_suggested() {
        assert_eq!(suggest("xyz", ["input", "output"]), Some("known names: input, output".to_owned()));
        assert_eq!(suggest("xyz", []), None);
    }
}
