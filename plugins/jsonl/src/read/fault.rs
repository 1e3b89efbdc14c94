//! Errors in a line, with the line number and the offset.

use super::line_range::LineRange;
use tensorferry_sdk::Error;

/// An error in a line.
pub(super) struct LineError {
    /// Position of the error in the line, in bytes starting from 1, or `None` if it is not known.
    pub(super) at: Option<usize>,
    pub(super) error: Error,
}

/// Position of a line.
#[derive(Clone, Copy)]
pub(super) struct LinePosition<'a> {
    pub(super) range: &'a LineRange,
    /// Offset of the line's first byte in the decompressed file.
    pub(super) offset: u64,
    /// Number of the line in the range, starting from 0.
    pub(super) line: u64,
}

impl LinePosition<'_> {
    /// Adds the file, the offset and the line number, which starts from 1, to an error.
    pub(super) fn of(&self, LineError { at, error }: LineError) -> Error {
        let inside = at.and_then(|at| u64::try_from(at).ok()).unwrap_or(1).saturating_sub(1);
        let error = match self.range.lines_before() {
            Some(before) => error.context(format!("line {}", before + self.line + 1)),
            None => error,
        };
        error.file(self.range.file()).offset(self.offset + inside)
    }
}

/// Words that Python's `json` module writes for some floats. They are not valid JSON.
const PYTHON_WORDS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// Converts an error that `serde_json` returned for a line.
pub(super) fn of_json(error: &serde_json::Error, line: &[u8]) -> LineError {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let at = error.column();
    // The error is at the first letter of the word, or at the second character of `-Infinity`.
    let word = [at.saturating_sub(1), at].into_iter().find_map(|at| {
        let rest = line.get(at.checked_sub(1)?..)?;
        PYTHON_WORDS.into_iter().find(|word| rest.starts_with(word))
    });
    let error = match word {
        Some(word) => Error::malformed("JSON has no NaN or infinity")
            .expected("null, or a string: \"NaN\", \"Infinity\", \"-Infinity\"")
            .found(String::from_utf8_lossy(word).into_owned()),
        None => Error::malformed(one_line(message)),
    };
    LineError { at: Some(at), error }
}

/// Returns the error for a line that is not an object.
pub(super) fn not_an_object(line: &[u8]) -> LineError {
    let line = line.trim_ascii();
    let error = match line.first() {
        Some(b'[') => Error::malformed("the line is a list, not an object"),
        _ => Error::malformed("the line is not a JSON object"),
    };
    let found = String::from_utf8_lossy(&line[..line.len().min(20)]);
    LineError { at: None, error: error.expected("{").found(format!("{found:?}")) }
}

/// Shortens a library's error message to one line, because the message may quote long text from the
/// file.
pub(super) fn one_line(text: &str) -> String {
    let short: String = text.chars().take(300).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
