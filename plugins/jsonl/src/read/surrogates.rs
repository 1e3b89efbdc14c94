//! Replaces escaped surrogate pairs with their characters. `arrow_json` would decode half of all
//! pairs to the wrong characters.

use std::borrow::Cow;

/// Replaces each escaped surrogate pair with its character. Does not change lone surrogates, which
/// the decoder rejects.
pub(super) fn joined(text: &[u8]) -> Cow<'_, [u8]> {
    let has = |start: &[u8]| memchr::memmem::find(text, start).is_some();
    if !has(b"\\ud") && !has(b"\\uD") {
        return Cow::Borrowed(text);
    }
    let mut joined = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(place);
        joined.extend_from_slice(before);
        let len = match pair(escape) {
            Some(letter) => {
                joined.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                12
            }
            // Copy the backslash together with the next character, which may also be a backslash.
            None => {
                let len = escape.len().min(2);
                joined.extend_from_slice(&escape[..len]);
                len
            }
        };
        rest = &escape[len..];
    }
    joined.extend_from_slice(rest);
    Cow::Owned(joined)
}

/// Decodes the escaped surrogate pair at the start of `text`.
fn pair(text: &[u8]) -> Option<char> {
    let unit = |place: usize| {
        let digits = text.get(place..place + 6)?.strip_prefix(b"\\u")?;
        let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (high, low) = (unit(0).filter(|unit| (0xd800..0xdc00).contains(unit))?, unit(6)?);
    char::decode_utf16([high, low]).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_characters_and_nothing_else_changes() {
        for (text, expected) in [
            (r"no escape", "no escape"),
            (r"\ud842\udfb7\uD842\uDFB7", "\u{20bb7}\u{20bb7}"),
            (r"a\ud83d\ude00b\u0041\n", "a\u{1f600}b\\u0041\\n"),
            (r"\\ud842\udfb7", r"\\ud842\udfb7"),
            (r"\\\ud842\udfb7", "\\\\\u{20bb7}"),
            (r"\ud842", r"\ud842"),
            (r"\ud842\ud842\udfb7", "\\ud842\u{20bb7}"),
            (r"\udfb7\ud842", r"\udfb7\ud842"),
            (r"\ud842\u0041", r"\ud842\u0041"),
            (r"\ud842\udfb", r"\ud842\udfb"),
            (r"\ud842\u+fb7", r"\ud842\u+fb7"),
            ("\\ud842\\", "\\ud842\\"),
            (r"\udbff\udfff\ud800\udc00", "\u{10ffff}\u{10000}"),
        ] {
            assert_eq!(String::from_utf8_lossy(&joined(text.as_bytes())), expected, "{text}");
        }
    }

    #[test]
    fn every_pair_is_its_character() {
        for letter in ('\u{10000}'..='\u{10ffff}').step_by(97) {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units);
            let text = format!("\\u{:04x}\\u{:04x}", units[0], units[1]);
            assert_eq!(joined(text.as_bytes()), letter.to_string().as_bytes());
        }
    }
}
