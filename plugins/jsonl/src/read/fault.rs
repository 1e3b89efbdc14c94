//! Errors about a line, with its number and offset.

use super::line_range::LineRange;
use tensorferry_sdk::Error;

/// What is wrong with a line.
pub(super) struct LineError {
    /// The column in it, from 1, where that is known.
    pub(super) at: Option<usize>,
    pub(super) error: Error,
}

/// Where a line lies.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) range: &'a LineRange,
    /// Its first byte in the file, once decompressed.
    pub(super) offset: u64,
    /// Its number in the range, from 0.
    pub(super) line: u64,
}

impl Place<'_> {
    /// The error with its place: the line's number as editors have it.
    pub(super) fn of(&self, LineError { at, error }: LineError) -> Error {
        let inside = at.and_then(|at| u64::try_from(at).ok()).unwrap_or(1).saturating_sub(1);
        let error = match self.range.lines_before() {
            Some(before) => error.context(format!("line {}", before + self.line + 1)),
            None => error,
        };
        error.file(self.range.file()).offset(self.offset + inside)
    }
}

/// Words that Python's `json` writes for floats, and that JSON has not.
const PYTHON_WORDS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// `serde_json`'s word on a line.
pub(super) fn of_json(error: &serde_json::Error, line: &[u8]) -> LineError {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let at = error.column();
    // It is found at the word's first letter, or at the second one of `-Infinity`.
    let word = [at.saturating_sub(1), at].into_iter().find_map(|at| {
        let rest = line.get(at.checked_sub(1)?..)?;
        PYTHON_WORDS.into_iter().find(|word| rest.starts_with(word))
    });
    let error = match word {
        Some(word) => Error::malformed("JSON has no word for a float that is no number")
            .expected("null, or a string: \"NaN\", \"Infinity\", \"-Infinity\"")
            .found(String::from_utf8_lossy(word).into_owned()),
        None => Error::malformed(one_line(message)),
    };
    LineError { at: Some(at), error }
}

/// The error for a line that is something else.
pub(super) fn not_an_object(line: &[u8]) -> LineError {
    let line = line.trim_ascii();
    let error = match line.first() {
        Some(b'[') => Error::malformed("the line is a list, not an object"),
        _ => Error::malformed("the line is not a JSON object"),
    };
    let found = String::from_utf8_lossy(&line[..line.len().min(20)]);
    LineError { at: None, error: error.expected("{").found(format!("{found:?}")) }
}

/// A library's words quote the file: short, and on one line.
pub(super) fn one_line(text: &str) -> String {
    let short: String = text.chars().take(300).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
