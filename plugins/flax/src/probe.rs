//! Scores how likely an input is to be a Flax file. msgpack has no magic number, so the score
//! depends on the first values in a file, or on the names in a folder.

use crate::NAMING;
use tensorferry_flax_file::document::Document;
use tensorferry_hub::is_member;
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};

/// Score of a folder. If a folder contains the same model for several frameworks, the other
/// frameworks' formats rank higher.
const IN_A_FOLDER: Score = Score(18);

pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let has_members =
        |prefix| -> Result<bool> { Ok(source.list(prefix)?.iter().any(|name| is_member(&NAMING, name))) };
    match source.entry() {
        Entry::File(name) if NAMING.stem_of_index(name).is_some() => Ok(Score::CERTAIN),
        Entry::File(name) => {
            let by_name = if has_suffix(name, NAMING.suffix) { Score::MAYBE } else { Score::NO };
            match Document::starts_with_arrays(source, source.open(name)?, context) {
                // Only Flax encodes arrays in this way. If the name also matches, the score is
                // `CERTAIN`, so that no other format is probed.
                Ok(true) if by_name != Score::NO => Ok(Score::CERTAIN),
                Ok(true) => Ok(Score::LIKELY),
                Ok(false) => Ok(by_name),
                Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => Err(error),
                Err(_) => Ok(by_name),
            }
        }
        Entry::Folder => Ok(if has_members("")? { IN_A_FOLDER } else { Score::NO }),
        Entry::Prefix(prefix) => Ok(if has_members(prefix)? { IN_A_FOLDER } else { Score::NO }),
    }
}
