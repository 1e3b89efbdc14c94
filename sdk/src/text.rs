//! Functions for text in messages.

use std::fmt::{Display, Write as _};

/// Returns the first `max` items of a list and the number of the remaining items, as in `a, b and 3
/// more`.
pub fn listed(items: impl IntoIterator<Item: Display>, max: usize) -> String {
    let mut items = items.into_iter();
    let shown: Vec<String> = items.by_ref().take(max).map(|item| item.to_string()).collect();
    let more = match items.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

/// Returns the bytes as lowercase hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
