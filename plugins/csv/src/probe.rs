//! Detection of CSV. A file is detected by its name and by whether it contains text, and a folder
//! by the file names in it.

use crate::dialect::is_called;
use crate::read::is_member;
use tensorferry_sdk::{Entry, Result, Score, Source};

/// Number of bytes at the beginning of a file that are examined.
const LOOKED_AT: u64 = 16 << 10;
/// Score of a folder. It is low, because a folder with a model's weights may also contain tables.
const IN_A_FOLDER: Score = Score(9);

pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    match source.entry() {
        Entry::File(name) => of_file(source, name),
        _ => Score::by_names(source, is_member, IN_A_FOLDER),
    }
}

fn of_file(source: &dyn Source, name: &str) -> Result<Score> {
    if !is_called(name) {
        return Ok(Score::NO);
    }
    let text = tensorferry_row_text::beginning(source, name, LOOKED_AT)?;
    let is_text = match std::str::from_utf8(&text) {
        Ok(_) => true,
        // A character may be cut off at the end of the examined bytes.
        Err(error) => error.error_len().is_none(),
    };
    if begins_with_json_lines(&text) {
        return Ok(Score::NO);
    }
    Ok(if is_text && !text.is_empty() { Score::LIKELY } else { Score::MAYBE })
}

/// Returns whether the first two lines are JSON objects, since some JSON lines files have the
/// suffix `.csv`. A single JSON object would not be enough evidence.
fn begins_with_json_lines(text: &[u8]) -> bool {
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let is_object =
        |line: &[u8]| line.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    let objects = lines.take(2).take_while(|line| is_object(line));
    objects.count() == 2
}
