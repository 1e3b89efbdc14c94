//! Lists several things in an error: the first few, and how many more.

/// The first few of a list that a hostile file may make long; `None` if it is empty.
pub fn list(items: impl Iterator<Item = String>) -> Option<String> {
    const SHOWN: usize = 5;
    let mut shown = Vec::new();
    let mut more = 0_usize;
    for item in items {
        if shown.len() < SHOWN {
            shown.push(item);
        } else {
            more += 1;
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown.join(", ")),
        (false, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn lists_are_short() {
        assert_eq!(list(std::iter::empty()), None);
        assert_eq!(list((0..7).map(|i| i.to_string())).unwrap(), "0, 1, 2, 3, 4 and 2 more");
    }
}
