//! Lists several things in an error: the first few, and how many more.

use tensorferry_sdk::listed;

/// The first few of a list that a hostile file may make long; `None` if it is empty.
pub fn list(items: impl Iterator<Item = String>) -> Option<String> {
    Some(listed(items, 5)).filter(|listed| !listed.is_empty())
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
