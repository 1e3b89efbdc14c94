//! Keys as text: a key is bytes, and a person, a message and a catalog want a name.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The key as UTF-8, with `\xNN` for each byte that is none.
pub(crate) fn readable(key: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(key) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(key.len() + 8);
    for chunk in key.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_utf_8_is_escaped() {
        assert_eq!(readable("größe/w".as_bytes()), "größe/w");
        assert_eq!(readable(b"a\xff\xfe/\xc3\xa9"), "a\\xff\\xfe/é");
        assert_eq!(readable(b""), "");
    }
}
