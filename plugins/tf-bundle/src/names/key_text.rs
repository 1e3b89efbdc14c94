//! Represents keys as strings. Keys are bytes, but names are UTF-8. Bytes of a key that are not
//! valid UTF-8 are therefore written as `\xNN`.
//!
//! A UTF-8 key is left unchanged, including backslashes, unless it looks like an escaped key.
//! Different keys therefore have different strings, and [`key_bytes`] recovers each key.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns the string that represents a key.
pub(crate) fn key_text(key: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(key) {
        Ok(text) if !looks_escaped(text) => Cow::Borrowed(text),
        _ => Cow::Owned(escape(key)),
    }
}

/// Returns the key that this string represents.
pub(crate) fn key_bytes(text: &str) -> Cow<'_, [u8]> {
    if looks_escaped(text) { Cow::Owned(unescape(text)) } else { Cow::Borrowed(text.as_bytes()) }
}

fn looks_escaped(text: &str) -> bool {
    text.as_bytes().windows(4).any(|window| hex_escape(window).is_some())
}

/// Returns the byte of an escape `\xNN` at the start of `bytes`.
fn hex_escape(bytes: &[u8]) -> Option<u8> {
    let &[b'\\', b'x', high, low, ..] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

fn escape(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len() + 16);
    for chunk in key.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', r"\\"));
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, r"\x{byte:02x}");
        }
    }
    text
}

fn unescape(text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if let Some(byte) = hex_escape(rest) {
            key.push(byte);
            rest = &rest[4..];
        } else {
            key.push(first);
            rest = if rest.starts_with(br"\\") { &rest[2..] } else { after };
        }
    }
    key
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn utf8_is_its_own_text() {
        for key in ["w", "schlüssel/.ATTRIBUTES/VARIABLE_VALUE", r"a\b", r"a\\b", r"\x", ""] {
            assert_eq!(key_text(key.as_bytes()), key);
            assert_eq!(&*key_bytes(key), key.as_bytes());
        }
        assert_eq!(key_text(b"a\xff\\b"), r"a\xff\\b");
        assert_eq!(key_text(br"a\xff"), r"a\\xff");
    }

    proptest! {
        #[test]
        fn every_key_is_found_again(key in prop::collection::vec(
            prop_oneof![Just(b'\\'), Just(b'x'), Just(b'f'), Just(0xff_u8), any::<u8>()], 0..12,
        )) {
            let text = key_text(&key).into_owned();
            prop_assert_eq!(&*key_bytes(&text), &*key);
        }
    }

    #[test]
    fn escapes_are_ascii() {
        assert!(String::from_utf8(key_text(&[0xc3]).as_bytes().to_vec()).unwrap().is_ascii());
    }
}
