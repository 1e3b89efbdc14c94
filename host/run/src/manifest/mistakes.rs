//! A mistake is an error in a manifest, with its place and, if it can be guessed, what was meant.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// An error in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What may have been meant.
    pub suggestion: Option<String>,
}

/// All errors in the text of a manifest.
#[derive(Debug, Clone)]
pub(super) struct Mistakes {
    text: String,
    list: Vec<Mistake>,
}

impl Mistakes {
    /// None yet.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), list: Vec::new() }
    }

    /// One at a place of the text.
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

    /// In the order of the text.
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

/// `did you mean ...?` for the nearest of `known`, else the list of them if it is short.
pub(super) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const MOST_LISTED: usize = 24;
    let known: Vec<&str> = known.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    match tensorferry::suggest(word, known.iter().copied()) {
        Some(near) => Some(format!("did you mean {near:?}?")),
        None if (1..=MOST_LISTED).contains(&known.len()) => Some(format!("known are {}", known.join(", "))),
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
        assert_eq!(suggest("xyz", ["input", "output"]), Some("known are input, output".to_owned()));
        assert_eq!(suggest("xyz", []), None);
    }
}
