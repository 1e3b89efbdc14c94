//! Parses literals of the text form: strings with escapes, integers in three bases, and decimal
//! numbers.

use std::borrow::Cow;

/// Appends the content of a quoted string literal. The error describes the problem with the
/// literal.
pub(crate) fn unescape(literal: &[u8], output: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut rest = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    while let Some(backslash) = rest.iter().position(|&byte| byte == b'\\') {
        output.extend_from_slice(&rest[..backslash]);
        rest = escape(&rest[backslash + 1..], output)?;
    }
    output.extend_from_slice(rest);
    Ok(())
}

/// Parses an escape sequence after its backslash, and returns the rest of the literal.
fn escape<'a>(rest: &'a [u8], output: &mut Vec<u8>) -> Result<&'a [u8], &'static str> {
    let (&first, after) = rest.split_first().ok_or("a string ends in a backslash")?;
    let plain = match first {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' | b'\'' | b'"' | b'?' => first,
        b'0'..=b'7' => {
            let (value, after) = digits(rest, 8, 1, 3).ok_or("an octal escape has no digits")?;
            output.push(u8::try_from(value).map_err(|_| "an octal escape does not fit in a byte")?);
            return Ok(after);
        }
        b'x' | b'X' => {
            let (value, after) = digits(after, 16, 1, 2).ok_or("a hexadecimal escape has no digits")?;
            output.push(u8::try_from(value).map_err(|_| "a hexadecimal escape does not fit in a byte")?);
            return Ok(after);
        }
        b'u' | b'U' => {
            let (character, after) = character(first, after).ok_or("an escape is not a Unicode character")?;
            output.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(after);
        }
        _ => return Err("no such escape"),
    };
    output.push(plain);
    Ok(after)
}

/// Parses a character escape: `u` and 4 digits, or `U` and 8 digits. Two `\u` escapes may form a
/// surrogate pair.
fn character(kind: u8, rest: &[u8]) -> Option<(char, &[u8])> {
    let len = if kind == b'u' { 4 } else { 8 };
    let (value, after) = digits(rest, 16, len, len)?;
    if let Some(character) = char::from_u32(value) {
        return Some((character, after));
    }
    let (low, after) = digits(after.strip_prefix(b"\\u")?, 16, 4, 4)?;
    let halves = [u16::try_from(value).ok()?, u16::try_from(low).ok()?];
    let mut decoded = char::decode_utf16(halves);
    Some((decoded.next()?.ok()?, after))
}

fn digits(rest: &[u8], base: u32, min: usize, max: usize) -> Option<(u32, &[u8])> {
    let digit = |byte: &u8| char::from(*byte).to_digit(base);
    let len = rest.iter().take(max).take_while(|byte| digit(byte).is_some()).count();
    let value = rest[..len].iter().filter_map(digit).fold(0, |value, digit| value * base + digit);
    (len >= min).then(|| (value, &rest[len..]))
}

/// Parses an unsigned integer in decimal, `0x` hexadecimal or `0` octal notation.
pub(crate) fn integer(text: &[u8]) -> Option<u64> {
    let (digits, base) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    };
    // Rust's parser accepts a sign at this position, but the text form does not.
    let digits = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with('+'))
}

/// Converts an unsigned number to Rust's notation. If the result is then parsed as a float of the
/// target width, the number is rounded only once.
pub(crate) fn number(text: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(text).ok()?;
    let lower = text.to_ascii_lowercase();
    match &*lower {
        "inf" | "infinity" | "inff" | "infinityf" => Some(Cow::Borrowed("inf")),
        "nan" | "nanf" => Some(Cow::Borrowed("nan")),
        _ => {
            let digits = lower.strip_suffix('f').unwrap_or(&lower);
            let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            is_number.then(|| Cow::Owned(digits.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn unescaped(literal: &str) -> Result<Vec<u8>, &'static str> {
        let mut output = Vec::new();
        unescape(literal.as_bytes(), &mut output).map(|()| output)
    }

    #[test]
    fn every_escape_is_known() {
        assert_eq!(unescaped(r#""\a\b\f\n\r\t\v\\\'\"\?""#).unwrap(), b"\x07\x08\x0c\n\r\t\x0b\\'\"?");
        assert_eq!(unescaped(r"'\0\377\08\1234\x1\xfFf'").unwrap(), b"\0\xff\08S4\x01\xfff");
        assert_eq!(unescaped(r"'\u00e4\U0001F600\uD83D\uDE00'").unwrap(), "ä😀😀".as_bytes());
        for bad in [r"'\q'", r"'\400'", r"'\xg'", r"'\u12'", r"'\uD83D'", r"'\uD83D\u0041'", r"'\U00110000'"]
        {
            assert!(unescaped(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn integers_have_three_bases() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer(b"0xfF"), Some(255));
        assert_eq!(integer(b"017"), Some(15));
        for bad in [&b"18446744073709551616"[..], b"08", b"0x", b"1.0", b"1e3", b"", b"0x+1"] {
            assert_eq!(integer(bad), None, "{bad:?}");
        }
    }
}
