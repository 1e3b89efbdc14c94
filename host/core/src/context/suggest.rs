//! Suggests known words for misspelled words.

/// Returns the known word nearest to `word`, if one is close enough.
#[must_use]
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Up to a third of the letters may be wrong, and always at least one letter: `renam`,
    // `tarnspose`, `dtpye`.
    let max = (word.chars().count() / 3).max(1);
    let distance = |known: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &known.to_lowercase());
    let near = known.into_iter().map(|known| (distance(known), known)).filter(|(far, _)| *far <= max);
    near.min().map(|(_, known)| known)
}

/// Returns the end of a message about an unknown word: `; did you mean "WORD"?` or `; one of A, B,
/// C`.
#[must_use]
pub fn or_which<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match suggest(word, known.clone()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!("; one of {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_meant() {
        let known = ["rename", "reshape", "transpose", "tie"];
        assert_eq!(suggest("renam", known), Some("rename"));
        assert_eq!(suggest("Tranpsose", known), Some("transpose"));
        assert_eq!(suggest("quantize", known), None);
        assert_eq!(suggest("", known), None);
        assert_eq!(or_which("x", ["a", "bcd"]), "; did you mean \"a\"?");
        assert_eq!(or_which("xyz", ["a", "bcd"]), "; one of a, bcd");
    }
}
