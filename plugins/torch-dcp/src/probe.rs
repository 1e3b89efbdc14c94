//! How sure this format is of an input: the names in the folder say most.

use crate::members::members;
use crate::shards;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};

/// What a table's pickle begins with, whatever its protocol from 2 on.
const PICKLE: u8 = 0x80;

pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let members = members(source)?;
    let is_folder = *source.entry() == Entry::Folder;
    if let Some(table) = members.tables.first() {
        let mut first = [0];
        let file = source.open(table)?;
        let is_pickle =
            source.len(file) > 0 && source.read_at(file, 0, &mut first).is_ok() && first == [PICKLE];
        return Ok(match (members.has_data, is_pickle) {
            (true, _) => Score::CERTAIN,
            // Data files may have other names; so may what else writes a `.metadata`.
            (false, true) => Score::LIKELY,
            (false, false) => Score::NO,
        });
    }
    if let Some(shard) = members.shards.first() {
        let file = source.open(shard)?;
        return match shards::is_shard(source, file, context.limits()) {
            Ok(true) => Ok(Score::CERTAIN),
            Ok(false) => Ok(Score::NO),
            Err(error) if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Limit) => Ok(Score::NO),
            Err(error) => Err(error),
        };
    }
    // Data without its table: the reader says so. A file on its own may be a plain archive.
    Ok(if members.has_data && is_folder { Score::LIKELY } else { Score::NO })
}
