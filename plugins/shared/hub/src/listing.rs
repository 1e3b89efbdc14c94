//! Formats lists for errors: the first few items, and the number of remaining items.

use tensorferry_sdk::listed;

/// Formats the first few items, because a hostile file can make a list long. Returns `None` if
/// there are no items.
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
