//! Reads the tokens of JSON lines.

use tensorferry_row_text::eight_digits;

/// Maximum number of nested lists and objects in a skipped value.
const MAX_SKIPPED_LEVELS: u32 = 60;
/// Number of decimal digits that always fit into a u64.
const DIGITS: usize = 19;
/// A word in which each byte is 1, and a word in which each byte is 128.
const ONES: u64 = u64::MAX / 255;
const HIGH_BITS: u64 = 128 * ONES;

/// A position in a block of lines. Each function returns `None` if the text is not valid JSON or if
/// a value contains a newline. The position is then undefined.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// The characters of a string with escapes.
    unescaped: String,
}

/// A number and its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    pub(super) text: &'a str,
    pub(super) is_negative: bool,
    /// Whether the text has neither a fraction nor an exponent.
    pub(super) is_integer: bool,
    /// The digits without the decimal point, or `None` if there are more than [`DIGITS`].
    pub(super) digits: Option<u64>,
    /// The power of ten by which the digits have to be multiplied.
    exponent: i32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, unescaped: String::new() }
    }

    /// Returns the next byte, or 0 at the end.
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Advances if the next byte is `byte`.
    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    /// Advances if the next bytes are `bytes`.
    #[inline]
    pub(super) fn eat_all(&mut self, bytes: &[u8]) -> bool {
        let is_next = self.text.as_bytes()[self.at..].starts_with(bytes);
        self.at += if is_next { bytes.len() } else { 0 };
        is_next
    }

    /// Skips whitespace within a line.
    #[inline]
    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// Advances to the next line with text. Returns whether there is such a line.
    pub(super) fn next_line(&mut self) -> bool {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
        self.at < self.text.len()
    }

    /// Advances to the next line. Only whitespace may be left on the current line.
    pub(super) fn end_line(&mut self) -> Option<()> {
        self.skip_space();
        (self.eat(b'\n') || self.at == self.text.len()).then_some(())
    }

    /// After an item of a list or object, returns whether another item follows. If not, advances
    /// behind `end`, which closes the list or object.
    #[inline]
    pub(super) fn has_next(&mut self, end: u8) -> Option<bool> {
        self.skip_space();
        if self.eat(b',') {
            self.skip_space();
            return Some(true);
        }
        self.expect(end).map(|()| false)
    }

    /// After the bracket that opens a list or object, returns whether it has an item. If not,
    /// advances behind `end`, which closes the list or object.
    #[inline]
    pub(super) fn has_first(&mut self, end: u8) -> bool {
        self.skip_space();
        !self.eat(end)
    }

    /// Reads a string, without its quotes and escapes.
    #[inline]
    pub(super) fn string(&mut self) -> Option<&str> {
        self.expect(b'"')?;
        let start = self.at;
        self.at = end_of_plain_text(self.text.as_bytes(), start);
        if self.peek() == b'"' {
            self.at += 1;
            return self.text.get(start..self.at - 1);
        }
        self.unescaped.clear();
        self.unescaped.push_str(self.text.get(start..self.at)?);
        while !self.eat(b'"') {
            self.expect(b'\\')?;
            let letter = self.escape()?;
            self.unescaped.push(letter);
            let start = self.at;
            self.at = end_of_plain_text(self.text.as_bytes(), start);
            self.unescaped.push_str(self.text.get(start..self.at)?);
        }
        Some(&self.unescaped)
    }

    /// Reads the escape after a backslash.
    fn escape(&mut self) -> Option<char> {
        let byte = self.peek();
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                if !matches!(unit, 0xd800..=0xdfff) {
                    return char::from_u32(unit.into());
                }
                let low = if self.eat_all(b"\\u") { self.unit()? } else { return None };
                char::decode_utf16([unit, low]).next()?.ok()?
            }
            _ => return None,
        })
    }

    /// Reads four hexadecimal digits.
    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u16::from_str_radix(are_digits.then_some(digits)?, 16).ok()
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<Number<'a>> {
        let start = self.at;
        let is_negative = self.eat(b'-');
        let first = self.at;
        let mut digits = 0;
        if !self.eat(b'0') {
            self.digits(&mut digits)?;
        }
        let (mut count, mut exponent) = (self.at - first, 0_i32);
        let mut is_integer = true;
        if self.eat(b'.') {
            let places = self.digits(&mut digits)?;
            (count, exponent, is_integer) =
                (count + places, 0_i32.checked_sub_unsigned(u32::try_from(places).ok()?)?, false);
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            let is_negative = self.eat(b'-');
            if !is_negative {
                self.eat(b'+');
            }
            let mut power = 0;
            let len = self.digits(&mut power)?;
            // A longer exponent may have overflowed, but the float is then parsed from the text.
            let power = if len <= 8 { i32::try_from(power).ok()? } else { i32::MAX / 2 };
            exponent = exponent.saturating_add(if is_negative { -power } else { power });
            is_integer = false;
        }
        let digits = (count <= DIGITS).then_some(digits);
        Some(Number { text: self.text.get(start..self.at)?, is_negative, is_integer, digits, exponent })
    }

    /// Reads at least one digit, and appends the digits to a number. Returns their count. The
    /// number is incorrect if it overflows.
    #[inline]
    fn digits(&mut self, number: &mut u64) -> Option<usize> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while let Some(eight) =
            bytes.get(self.at..).and_then(|rest| rest.first_chunk()).and_then(|eight| eight_digits(*eight))
        {
            *number = number.wrapping_mul(100_000_000).wrapping_add(eight);
            self.at += 8;
        }
        while let digit @ b'0'..=b'9' = self.peek() {
            *number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        Some(self.at - start).filter(|len| *len > 0)
    }

    /// Skips a value, and returns its text.
    pub(super) fn value_text(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.skip_value(MAX_SKIPPED_LEVELS)?;
        self.text.get(start..self.at)
    }

    fn skip_value(&mut self, levels: u32) -> Option<()> {
        match self.peek() {
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.number().map(|_| ()),
            b'{' => {
                self.at += 1;
                let mut has_more = self.has_first(b'}');
                while has_more {
                    self.string()?;
                    self.colon()?;
                    self.skip_value(levels.checked_sub(1)?)?;
                    has_more = self.has_next(b'}')?;
                }
                Some(())
            }
            b'[' => {
                self.at += 1;
                let mut has_more = self.has_first(b']');
                while has_more {
                    self.skip_value(levels.checked_sub(1)?)?;
                    has_more = self.has_next(b']')?;
                }
                Some(())
            }
            _ => {
                let words: [&[u8]; 3] = [b"null", b"true", b"false"];
                words.into_iter().any(|word| self.eat_all(word)).then_some(())
            }
        }
    }

    /// Reads the colon after a key.
    #[inline]
    pub(super) fn colon(&mut self) -> Option<()> {
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Some(())
    }
}

/// Returns the offset of the first quote, backslash or control character at or after `at`, or the
/// length of the text.
#[inline]
fn end_of_plain_text(text: &[u8], mut at: usize) -> usize {
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*eight);
        // Sets the high bit of the first byte below `limit`. Bits of later bytes may be wrong.
        let below = |word: u64, limit: u64| word.wrapping_sub(limit * ONES) & !word & HIGH_BITS;
        let equal = |byte: u8| below(word ^ (u64::from(byte) * ONES), 1);
        let found = equal(b'"') | equal(b'\\') | below(word, 0x20);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    text[at..]
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
        .map_or(text.len(), |place| at + place)
}

impl Number<'_> {
    /// Largest integer up to which a float represents all integers exactly.
    pub(super) const MAX_EXACT: u64 = 1 << 53;

    /// Returns the nearest float, which is infinite if the number is too large.
    #[inline]
    pub(super) fn to_f64(self) -> Option<f64> {
        const POWERS: [f64; 23] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
            1e18, 1e19, 1e20, 1e21, 1e22,
        ];
        let power = POWERS.get(usize::try_from(self.exponent.unsigned_abs()).ok()?);
        let exact = self.digits.filter(|digits| *digits <= Self::MAX_EXACT).zip(power);
        let Some((digits, power)) = exact else { return self.text.parse().ok() };
        // Both operands are exact, so the only rounding is that of the result.
        #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
        let digits = digits as f64;
        let value = if self.exponent < 0 { digits / power } else { digits * power };
        Some(if self.is_negative { -value } else { value })
    }

    /// Returns an integer without fraction and exponent. Returns `None` for `-0`, which is a float.
    #[inline]
    pub(super) fn to_integer(self) -> Option<i128> {
        if !self.is_integer || self.text == "-0" {
            return None;
        }
        match self.digits {
            Some(digits) => Some(if self.is_negative { -i128::from(digits) } else { digits.into() }),
            None => self.text.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn plain_text_ends_at_the_first_special_byte() {
        for filler in ["a", " ", "!", "#", "[", "]", "\u{7f}", "é", "\u{10ffff}"] {
            for len in 0..20 {
                let plain = filler.repeat(len);
                assert_eq!(end_of_plain_text(plain.as_bytes(), 0), plain.len());
                for special in ["\"", "\\", "\0", "\n", "\u{1f}"] {
                    let text = format!("{plain}{special}{plain}\"");
                    assert_eq!(end_of_plain_text(text.as_bytes(), 0), plain.len(), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn strings_are_unescaped() {
        let string = |text: &str| Cursor::new(text).string().map(str::to_owned);
        for (text, expected) in [
            (r#""""#, ""),
            (r#""abcdefghij""#, "abcdefghij"),
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r#""é\u00e9\u20AC\ud83d\ude00é""#, "éé€😀é"),
            (r#""\u0000""#, "\0"),
        ] {
            assert_eq!(string(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            r#"""#,
            r#""\"#,
            r#""\""#,
            r#""\x""#,
            r#""\u12""#,
            r#""\u+123""#,
            r#""\u123é""#,
            r#""\ud83d""#,
            r#""\ude00""#,
            r#""\ud83d\u0041""#,
            "\"\n\"",
            "\"\u{1}\"",
            "a",
        ] {
            assert_eq!(string(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_have_the_nearest_float() {
        let mut texts: Vec<String> = [
            "0",
            "-0",
            "-0.0",
            "0e5",
            "1E+3",
            "1e22",
            "1e23",
            "9007199254740992e22",
            "9007199254740993e-3",
            "5e-324",
            "2.2250738585072011e-308",
            "1.7976931348623157e308",
            "1e400",
            "1e-400",
            "0e99999999999",
            "1e99999999999",
            "1e-99999999999",
            "1234567812345678",
            "12345678.87654321",
            "18446744073709551616",
            "0.00000000000000000000000000000123",
            "3.14159265358979323846264338327950288",
        ]
        .map(str::to_owned)
        .into();
        // The numbers come from a linear congruential generator.
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(state);
            if value.is_finite() {
                texts.extend([format!("{value}"), format!("{value:e}")]);
            }
            let (places, power) = (state % 20, i64::try_from(state >> 8 & 63).unwrap() - 32);
            texts.push(format!("{}.{:01$}e{power}", state >> 44, usize::try_from(places).unwrap() + 1));
        }
        for text in texts {
            let line = format!("{text},");
            let mut cursor = Cursor::new(&line);
            let value = cursor.number().and_then(Number::to_f64).unwrap();
            assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
            assert!(cursor.eat(b','), "{text}");
        }
        for text in ["", "-", "+1", ".5", "1.", "1.e5", "1e", "1e+", "-e5", "NaN"] {
            assert!(Cursor::new(text).number().is_none(), "{text}");
        }
        // The caller finds that the text goes on.
        assert_eq!(Cursor::new("01").number().map(|number| number.text), Some("0"));
    }

    #[test]
    fn integers_are_exact() {
        for text in ["0", "7", "-7", "18446744073709551615", "-9223372036854775809", "9999999999999999999"] {
            assert_eq!(Cursor::new(text).number().unwrap().to_integer(), text.parse().ok(), "{text}");
        }
        for text in ["-0", "1.0", "1e3", &"9".repeat(40)] {
            assert_eq!(Cursor::new(text).number().unwrap().to_integer(), None, "{text}");
        }
    }

    #[test]
    fn skipped_values_are_checked() {
        let deep = |levels| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for (text, is_valid) in [
            (r#"{"a": [1, {"b": null}], "c": "\n", "d": {}, "e": [ ]}"#, true),
            (r#"{"a": 1,}"#, false),
            (r#"{"a" 1}"#, false),
            (r#"[1 2]"#, false),
            (r#"["\ud800"]"#, false),
            ("[1,\n2]", false),
            ("nul", false),
            (&*deep(60), true),
            (&*deep(61), false),
        ] {
            assert_eq!(Cursor::new(text).value_text(), is_valid.then_some(text), "{text}");
        }
    }
}
