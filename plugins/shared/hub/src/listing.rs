//! Lists several things in an error: the first few, and the number of others.

use tensorferry_sdk::listed;

/// Lists the first few items, because a hostile file can make the list long; `None` if it is empty.
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
