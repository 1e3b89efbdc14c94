//! How sure it is that a source is CSV: by its name, and that it is text.

use crate::dialect::is_called;
use crate::read::is_member;
use std::io::Read;
use tensorferry_row_text::Codec;
use tensorferry_sdk::{Entry, Result, Score, Source};

/// Bytes at the beginning that are looked at.
const LOOKED_AT: u64 = 16 << 10;
/// Tables beside a model's weights are companions of the model.
const IN_A_FOLDER: Score = Score(9);

/// How sure it is that the source is CSV.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    let (prefix, found) = match source.entry() {
        Entry::File(name) => return of_file(source, name),
        Entry::Folder => ("", IN_A_FOLDER),
        Entry::Prefix(prefix) => (&**prefix, Score::LIKELY),
    };
    let any = source.list(prefix)?.iter().any(|name| is_member(name));
    Ok(if any { found } else { Score::NO })
}

fn of_file(source: &dyn Source, name: &str) -> Result<Score> {
    if !is_called(name) {
        return Ok(Score::NO);
    }
    let file = source.open(name)?;
    let len = source.len(file).min(LOOKED_AT);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    source.read_at(file, 0, &mut bytes)?;
    let mut text = Vec::new();
    let codec = Codec::of_bytes(&bytes);
    // What was cut off in the middle is no error here.
    if let Ok(reader) = codec.decompressed(std::io::Cursor::new(bytes)) {
        let _ = reader.take(LOOKED_AT).read_to_end(&mut text);
    }
    let is_text = match std::str::from_utf8(&text) {
        Ok(_) => true,
        // A letter may be cut.
        Err(error) => error.error_len().is_none(),
    };
    Ok(if is_text && !text.is_empty() { Score::LIKELY } else { Score::MAYBE })
}
