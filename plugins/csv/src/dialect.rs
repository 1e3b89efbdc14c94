//! Splits text into rows and fields.

use crate::{SUFFIXES, TABS};
use std::ops::Range;
use tensorferry_row_text::uncompressed_name;
use tensorferry_sdk::file_name::{has_any_suffix, has_suffix};

/// The delimiter and quote characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    /// `None` if quotes have no special meaning.
    pub(crate) quote: Option<u8>,
}

impl Dialect {
    /// Returns the dialect of a file with this name and these options.
    pub(crate) fn of(name: &str, delimiter: Option<u8>, quote: Option<u8>) -> Self {
        let by_name = if has_suffix(uncompressed_name(name), TABS) { b'\t' } else { b',' };
        Self { delimiter: delimiter.unwrap_or(by_name), quote }
    }
}

/// Returns whether a file name has one of the format's suffixes.
pub(crate) fn is_called(name: &str) -> bool {
    has_any_suffix(uncompressed_name(name), SUFFIXES)
}

/// A field of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Range of the field's text in the row, excluding the quotes around the text.
    pub(crate) text: Range<usize>,
    pub(crate) is_quoted: bool,
    /// Whether the text contains doubled quotes.
    pub(crate) has_doubled: bool,
}

/// Result of parsing the row at the start of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowStart {
    /// A row.
    Row {
        /// Length in bytes, including the line end.
        len: usize,
        /// Whether a quoted field contains a line end.
        has_line_ends: bool,
    },
    /// An incomplete row.
    Cut,
    /// A row with more fields than the maximum.
    TooMany,
    /// A quoted field with text after its closing quote. Contains the offset of that text.
    AfterQuote(usize),
    /// A quoted field without a closing quote. Contains the offset of the field.
    Unterminated(usize),
}

/// The positions of three bytes in a text, in order.
struct Marks<'a> {
    text: &'a [u8],
    /// The three bytes, each repeated in all bytes of a word.
    bytes: [u64; 3],
    /// Index of the first byte after the current word.
    at: usize,
    /// The high bit of each byte of the current word that is one of the three bytes.
    found: u64,
}

/// A word with the value 1 in each byte.
pub(crate) const ONES: u64 = u64::MAX / 0xff;
const WORD: usize = size_of::<u64>();

impl<'a> Marks<'a> {
    fn new(text: &'a [u8], bytes: [u8; 3], at: usize) -> Self {
        Self { text, bytes: bytes.map(|byte| ONES * u64::from(byte)), at, found: 0 }
    }

    /// Continues from an index that is at or after the last position.
    fn skip_to(&mut self, at: usize) {
        (self.at, self.found) = (at, 0);
    }

    /// Returns the next position.
    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.found == 0 {
            let word = match self.text.get(self.at..).filter(|rest| !rest.is_empty())?.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => self.last_word(),
            };
            self.at += WORD;
            self.found = self.bytes.iter().fold(0, |found, byte| {
                // Exactly the bytes that are zero have a zero in the high bit of this sum.
                let differs = word ^ byte;
                let sum = (differs & !(ONES << 7)) + !(ONES << 7);
                found | (!(sum | differs) & (ONES << 7))
            });
        }
        let place = self.at - WORD + self.found.trailing_zeros() as usize / 8;
        self.found &= self.found - 1;
        Some(place)
    }

    /// Returns the bytes at the end of the text, followed by bytes that are not ASCII characters.
    fn last_word(&self) -> u64 {
        let rest = &self.text[self.at..];
        let mut word = [0xff; WORD];
        word[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(word)
    }
}

/// Parses the first row of `text` into at most `max` fields. `is_all` means that the file ends
/// after `text`.
pub(crate) fn row(
    text: &[u8],
    is_all: bool,
    dialect: Dialect,
    max: usize,
    fields: &mut Vec<Field>,
) -> RowStart {
    fields.clear();
    let mut ends = Marks::new(text, [dialect.delimiter, b'\n', b'\r'], 0);
    let (mut at, mut has_line_ends) = (0, false);
    loop {
        if fields.len() == max {
            return RowStart::TooMany;
        }
        let quote = dialect.quote.filter(|quote| text.get(at) == Some(quote));
        let end = if let Some(quote) = quote {
            let start = at + 1;
            let mut has_doubled = false;
            let mut marks = Marks::new(text, [quote, b'\n', b'\r'], start);
            let end = loop {
                let Some(place) = marks.next() else {
                    return if is_all { RowStart::Unterminated(at) } else { RowStart::Cut };
                };
                if text[place] != quote {
                    has_line_ends = true;
                    continue;
                }
                match text.get(place + 1) {
                    Some(next) if *next == quote => {
                        has_doubled = true;
                        marks.skip_to(place + 2);
                    }
                    // The next byte is not available yet. It may be a second quote.
                    None if !is_all => return RowStart::Cut,
                    _ => break place,
                }
            };
            fields.push(Field { text: start..end, is_quoted: true, has_doubled });
            // The next field starts after the delimiter.
            ends.skip_to(end + 2);
            end + 1
        } else {
            let end = match ends.next() {
                Some(end) => end,
                None if is_all => text.len(),
                None => return RowStart::Cut,
            };
            fields.push(Field { text: at..end, is_quoted: false, has_doubled: false });
            end
        };
        let row = |len| RowStart::Row { len, has_line_ends };
        match text.get(end) {
            None => return row(end),
            Some(b'\n') => return row(end + 1),
            Some(b'\r') => {
                return match text.get(end + 1) {
                    Some(b'\n') => row(end + 2),
                    None if !is_all => RowStart::Cut,
                    _ => row(end + 1),
                };
            }
            Some(found) if *found == dialect.delimiter => at = end + 1,
            Some(_) => return RowStart::AfterQuote(end),
        }
    }
}

/// Returns the number of lines that a row spans.
pub(crate) fn lines(row: &[u8]) -> u64 {
    let newlines = memchr::memchr_iter(b'\n', row).count();
    let alone = memchr::memchr_iter(b'\r', row).filter(|place| row.get(place + 1) != Some(&b'\n')).count();
    (newlines + alone) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAS: Dialect = Dialect { delimiter: b',', quote: Some(b'"') };

    const fn one_line(len: usize) -> RowStart {
        RowStart::Row { len, has_line_ends: false }
    }

    fn fields(text: &str) -> (RowStart, Vec<(&str, bool)>) {
        let mut fields = Vec::new();
        let found = row(text.as_bytes(), true, COMMAS, 3, &mut fields);
        (found, fields.into_iter().map(|field| (&text[field.text], field.is_quoted)).collect())
    }

    #[test]
    fn rows_are_taken_apart() {
        assert_eq!(fields("a,b\nc"), (one_line(4), vec![("a", false), ("b", false)]));
        assert_eq!(fields("a,\r\nc"), (one_line(4), vec![("a", false), ("", false)]));
        assert_eq!(fields("a\rb"), (one_line(2), vec![("a", false)]));
        assert_eq!(
            fields("\"a\n,\"\"b\",\"\""),
            (RowStart::Row { len: 11, has_line_ends: true }, vec![("a\n,\"\"b", true), ("", true)])
        );
        assert_eq!(fields("a\"b\""), (one_line(4), vec![("a\"b\"", false)]));
        assert_eq!(fields("\"a\"b").0, RowStart::AfterQuote(3));
        assert_eq!(fields("x,\"a").0, RowStart::Unterminated(2));
        assert_eq!(fields("a,b,c"), (one_line(5), vec![("a", false), ("b", false), ("c", false)]));
        assert_eq!(fields("a,b,\"\",").0, RowStart::TooMany);
    }

    #[test]
    fn a_row_is_the_same_wherever_the_text_is_cut() {
        let text = b"a,\"b\"\"\r\n\",c\r\nd";
        let mut whole = Vec::new();
        assert_eq!(row(text, false, COMMAS, 3, &mut whole), RowStart::Row { len: 13, has_line_ends: true });
        for cut in 0..13 {
            let mut part = Vec::new();
            let found = row(&text[..cut], false, COMMAS, 3, &mut part);
            assert!(found == RowStart::Cut, "{cut}: {found:?}");
        }
        assert_eq!(lines(&text[..13]), 2);
    }

    #[test]
    fn marks_are_the_same_bytes_as_in_a_simple_search() {
        let text: Vec<u8> = (0..600_u32)
            .map(|place| b",\n\"\r\x0b\x8a\xff\0ab"[(place * place % 11 % 10) as usize])
            .collect();
        for start in 0..20 {
            for end in (start..50).chain([text.len()]) {
                let mut marks = Marks::new(&text[..end], [b',', b'\n', b'\r'], start);
                let found: Vec<usize> = std::iter::from_fn(|| marks.next()).collect();
                let is_mark = |place: &usize| matches!(text[*place], b',' | b'\n' | b'\r');
                assert_eq!(found, (start..end).filter(is_mark).collect::<Vec<_>>(), "{start} {end}");
            }
        }
    }
}
