//! Parses numbers and strings in the text form that the opcodes of protocol 0 use.
//!
//! Sources: CPython's `Lib/pickletools.py`, `Objects/bytesobject.c` (`_PyBytes_DecodeEscape`) and
//! `Objects/unicodeobject.c` (raw-unicode-escape).

/// Maximum number of digits in a decimal literal. Python has the same limit
/// (`sys.int_info.default_max_str_digits`), because the parsing time is quadratic in the number of
/// digits.
pub(super) const MAX_DIGITS: usize = 4300;

/// A parsed integer, which fits in 64 bits or is longer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Integer {
    Short(i64),
    Long(Box<[u8]>),
}

/// Parses an integer of any length in little-endian two's complement. An empty slice is 0.
pub(super) fn integer(bytes: &[u8]) -> Integer {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let filler = if negative { 0xff } else { 0 };
    let mut len = bytes.len();
    // The last byte is redundant if it only repeats the sign bit of the byte before it.
    while len > 1 && bytes[len - 1] == filler && (bytes[len - 2] & 0x80 != 0) == negative {
        len -= 1;
    }
    if len > 8 {
        return Integer::Long(bytes[..len].into());
    }
    let mut wide = [filler; 8];
    wide[..len].copy_from_slice(&bytes[..len]);
    Integer::Short(i64::from_le_bytes(wide))
}

/// Parses a decimal integer. Returns `None` if the string is not a number, or is longer than
/// [`MAX_DIGITS`].
pub(super) fn decimal(text: &str) -> Option<Integer> {
    if let Ok(value) = text.parse::<i64>() {
        return Some(Integer::Short(value));
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // The number consists of 32-bit words, starting with the lowest word. Each step adds nine
    // digits.
    let mut words: Vec<u32> = Vec::new();
    let first = digits.len() % 9;
    let groups = std::iter::once(&digits[..first])
        .chain((first..digits.len()).step_by(9).map(|at| &digits[at..at + 9]));
    for group in groups.filter(|group| !group.is_empty()) {
        let mut carry: u64 = group.parse().ok()?;
        for word in &mut words {
            carry += u64::from(*word) * 1_000_000_000;
            *word = low(carry);
            carry >>= 32;
        }
        if carry > 0 {
            words.push(low(carry));
        }
    }
    words.push(0);
    if negative {
        let mut carry = true;
        for word in &mut words {
            (*word, carry) = (!*word).overflowing_add(carry.into());
        }
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Some(integer(&bytes))
}

fn low(wide: u64) -> u32 {
    u32::try_from(wide & u64::from(u32::MAX)).unwrap_or(0)
}

/// Returns whether the bytes are a Python string, encoded as UTF-8 with `surrogatepass`.
pub(super) fn check_text(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(_) => return true,
            Err(error) => match rest[error.valid_up_to()..] {
                [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => rest = &rest[error.valid_up_to() + 3..],
                _ => return false,
            },
        }
    }
}

/// Parses a quoted Python 2 string with escapes. Returns `None` if the line is not such a string.
pub(super) fn quoted(line: &[u8]) -> Option<Vec<u8>> {
    let (&quote, rest) = line.split_first()?;
    let (&last, inner) = rest.split_last()?;
    if quote != last || !matches!(quote, b'\'' | b'"') {
        return None;
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&escape, tail) = rest.split_first()?;
        rest = tail;
        match escape {
            b'\\' | b'\'' | b'"' => bytes.push(escape),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b't' => bytes.push(9),
            b'n' => bytes.push(10),
            b'v' => bytes.push(11),
            b'f' => bytes.push(12),
            b'r' => bytes.push(13),
            b'x' => {
                bytes.push(u8::try_from(hexadecimal(rest, 2)?).ok()?);
                rest = &rest[2..];
            }
            b'0'..=b'7' => {
                let more = rest.iter().take(2).take_while(|b| matches!(b, b'0'..=b'7')).count();
                let digits = std::iter::once(&escape).chain(&rest[..more]);
                let value = digits.fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                // Three octal digits can represent values up to 511. Python keeps only the low
                // eight bits.
                bytes.push(u8::try_from(value & 0xff).ok()?);
                rest = &rest[more..];
            }
            _ => bytes.extend([b'\\', escape]),
        }
    }
    Some(bytes)
}

/// Converts a line in raw-unicode-escape encoding to UTF-8 with `surrogatepass`. Returns `None` if
/// an escape is truncated or not a valid code point.
pub(super) fn raw_unicode(line: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let escape = if byte == b'\\' { rest.first() } else { None };
        let digits = match escape {
            Some(b'u') => 4,
            Some(b'U') => 8,
            // Two backslashes do not start an escape, and remain two backslashes.
            Some(&other) => {
                push_code_point(&mut text, byte.into())?;
                push_code_point(&mut text, other.into())?;
                rest = &rest[1..];
                continue;
            }
            None => {
                push_code_point(&mut text, byte.into())?;
                continue;
            }
        };
        push_code_point(&mut text, hexadecimal(&rest[1..], digits)?)?;
        rest = &rest[1 + digits..];
    }
    Some(text)
}

fn hexadecimal(bytes: &[u8], digits: usize) -> Option<u32> {
    let text = std::str::from_utf8(bytes.get(..digits)?).ok()?;
    // `from_str_radix` would accept a sign.
    text.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(text, 16).ok())?
}

fn push_code_point(text: &mut Vec<u8>, point: u32) -> Option<()> {
    if let Some(character) = char::from_u32(point) {
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else if point <= 0xdfff {
        let unit = |shift: u32| u8::try_from(0x80 | (point >> shift & 0x3f)).ok();
        text.extend([0xed, unit(6)?, unit(0)?]);
    } else {
        return None;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn integers_keep_their_value_and_their_shortest_form() {
        assert_eq!(integer(&[]), Integer::Short(0));
        assert_eq!(integer(&[0xff]), Integer::Short(-1));
        assert_eq!(integer(&[0xff, 0]), Integer::Short(255));
        assert_eq!(integer(&[0xff; 20]), Integer::Short(-1));
        assert_eq!(integer(&i64::MIN.to_le_bytes()), Integer::Short(i64::MIN));
        let mut big = [0; 12];
        big[10] = 1;
        assert_eq!(integer(&big), Integer::Long(big[..11].into()));
    }

    #[test]
    fn decimals_of_any_length() {
        assert_eq!(decimal("-9223372036854775808"), Some(Integer::Short(i64::MIN)));
        // These bytes encode 2^80 and -2^80.
        let mut big = [0_u8; 11];
        big[10] = 1;
        assert_eq!(decimal("1208925819614629174706176"), Some(Integer::Long(big.into())));
        big[10] = 0xff;
        assert_eq!(decimal("-1208925819614629174706176"), Some(Integer::Long(big.into())));
        assert_eq!(decimal("000000000000000000000000000000012"), Some(Integer::Short(12)));
        for bad in ["", "-", "1x", "0x10", "1_000_000_000_000_000_000_000", &"9".repeat(MAX_DIGITS + 1)] {
            assert_eq!(decimal(bad), None, "{bad}");
        }
    }

    #[test]
    fn quoted_strings() {
        assert_eq!(quoted(br"'a\n\x41\101\\\q'").unwrap(), b"a\nAA\\\\q");
        assert_eq!(quoted(b"\"it's\"").unwrap(), b"it's");
        for bad in [&b"'"[..], b"a", b"'a\"", br"'\x4'", br"'\'"] {
            assert_eq!(quoted(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn raw_unicode_keeps_surrogates_and_pairs_of_backslashes() {
        assert_eq!(raw_unicode(br"\u2603\\u0041\U0001f600").unwrap(), "☃\\\\u0041😀".as_bytes());
        assert_eq!(raw_unicode(b"\xef").unwrap(), "ï".as_bytes());
        let lone = raw_unicode(br"a\udcffb").unwrap();
        assert!(check_text(&lone));
        assert_eq!(super::super::Text(lone.into()).escaped(), "a\\udcffb");
        for bad in [&br"\u12"[..], br"\U00110000", br"\u+123"] {
            assert_eq!(raw_unicode(bad), None);
        }
        assert!(!check_text(b"\xff"));
        assert!(!check_text(b"\xed\xa0"));
    }
}
