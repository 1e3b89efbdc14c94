//! Scores how likely an input is to be a distributed checkpoint, mostly by its file names.

use crate::members::members;
use crate::shards;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};

/// The first byte of a pickle that uses protocol 2 or later.
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
            // Without data files of the usual names, the score is only `LIKELY`: other programs may
            // also write a file `.metadata`.
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
    // Claim a folder of data files without a table, so that the reader can report the missing
    // table. A single file may be an ordinary archive.
    Ok(if members.has_data && is_folder { Score::LIKELY } else { Score::NO })
}
