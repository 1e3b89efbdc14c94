//! A suggestion is the word that was probably meant where an unknown one stands.

/// The known word that is nearest to `word`, if one is near.
#[must_use]
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong, and one always: `renam`, `tarnspose`, `dtpye`.
    let most = (word.chars().count() / 3).max(1);
    let distance = |known: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &known.to_lowercase());
    let near = known.into_iter().map(|known| (distance(known), known)).filter(|(far, _)| *far <= most);
    near.min().map(|(_, known)| known)
}

/// `; did you mean "WORD"?` or `; one of A, B, C`: the end of a message about an unknown word.
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
