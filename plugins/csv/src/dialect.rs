//! Splits text into rows and fields.

use crate::{SUFFIXES, TABS};
use memchr::{memchr, memchr3};
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
    /// A row of this many bytes, including the line end.
    Row(usize),
    /// An incomplete row.
    Cut,
    /// A row with more fields than the maximum.
    TooMany,
    /// A quoted field with text after its closing quote. Contains the offset of that text.
    AfterQuote(usize),
    /// A quoted field without a closing quote. Contains the offset of the field.
    Unterminated(usize),
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
    let mut at = 0;
    loop {
        if fields.len() == max {
            return RowStart::TooMany;
        }
        let quote = dialect.quote.filter(|quote| text.get(at) == Some(quote));
        let end = if let Some(quote) = quote {
            let start = at + 1;
            let (mut end, mut has_doubled) = (start, false);
            loop {
                match memchr(quote, &text[end..]) {
                    None if is_all => return RowStart::Unterminated(at),
                    None => return RowStart::Cut,
                    Some(place) => end += place,
                }
                match text.get(end + 1) {
                    Some(next) if *next == quote => (end, has_doubled) = (end + 2, true),
                    // The next byte is not available yet. It may be a second quote.
                    None if !is_all => return RowStart::Cut,
                    _ => break,
                }
            }
            fields.push(Field { text: start..end, is_quoted: true, has_doubled });
            end + 1
        } else {
            let len = memchr3(dialect.delimiter, b'\n', b'\r', &text[at..]);
            let end = match len {
                Some(len) => at + len,
                None if is_all => text.len(),
                None => return RowStart::Cut,
            };
            fields.push(Field { text: at..end, is_quoted: false, has_doubled: false });
            end
        };
        match text.get(end) {
            None => return RowStart::Row(end),
            Some(b'\n') => return RowStart::Row(end + 1),
            Some(b'\r') => {
                return match text.get(end + 1) {
                    Some(b'\n') => RowStart::Row(end + 2),
                    None if !is_all => RowStart::Cut,
                    _ => RowStart::Row(end + 1),
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

    fn fields(text: &str) -> (RowStart, Vec<(&str, bool)>) {
        let mut fields = Vec::new();
        let found = row(text.as_bytes(), true, COMMAS, 3, &mut fields);
        (found, fields.into_iter().map(|field| (&text[field.text], field.is_quoted)).collect())
    }

    #[test]
    fn rows_are_taken_apart() {
        assert_eq!(fields("a,b\nc"), (RowStart::Row(4), vec![("a", false), ("b", false)]));
        assert_eq!(fields("a,\r\nc"), (RowStart::Row(4), vec![("a", false), ("", false)]));
        assert_eq!(fields("a\rb"), (RowStart::Row(2), vec![("a", false)]));
        assert_eq!(fields("\"a\n,\"\"b\",\"\""), (RowStart::Row(11), vec![("a\n,\"\"b", true), ("", true)]));
        assert_eq!(fields("a\"b\""), (RowStart::Row(4), vec![("a\"b\"", false)]));
        assert_eq!(fields("\"a\"b").0, RowStart::AfterQuote(3));
        assert_eq!(fields("x,\"a").0, RowStart::Unterminated(2));
        assert_eq!(fields("a,b,c"), (RowStart::Row(5), vec![("a", false), ("b", false), ("c", false)]));
        assert_eq!(fields("a,b,\"\",").0, RowStart::TooMany);
    }

    #[test]
    fn a_row_is_the_same_wherever_the_text_is_cut() {
        let text = b"a,\"b\"\"\r\n\",c\r\nd";
        let mut whole = Vec::new();
        assert_eq!(row(text, false, COMMAS, 3, &mut whole), RowStart::Row(13));
        for cut in 0..13 {
            let mut part = Vec::new();
            let found = row(&text[..cut], false, COMMAS, 3, &mut part);
            assert!(found == RowStart::Cut, "{cut}: {found:?}");
        }
        assert_eq!(lines(&text[..13]), 2);
    }
}
