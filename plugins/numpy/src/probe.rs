//! Scores how likely an input is to be a NumPy file. The score depends on the first bytes of a
//! file, and on the names of an archive's members.

use crate::header::MAGIC;
use crate::read::{has_suffix_of_format, is_archive};
use crate::{ARCHIVE_SUFFIX, ARRAY_SUFFIX};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};
use tensorferry_zip::{Directory, Extent, Names};

/// Score of a folder. Arrays next to a model in a different format usually contain additional data,
/// such as tokens or statistics. This score is therefore lower than the scores of all other
/// formats.
const IN_A_FOLDER: Score = Score(10);

/// Scores a source. A file with a matching name but wrong bytes still gets `MAYBE`, so that the
/// reader can report what is wrong.
pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let name = match source.entry() {
        Entry::Folder => {
            let any = source.list("")?.iter().any(|name| has_suffix_of_format(name));
            return Ok(if any { IN_A_FOLDER } else { Score::NO });
        }
        Entry::Prefix(_) => return Ok(Score::NO),
        Entry::File(name) => name,
    };
    let by_name = if has_suffix_of_format(name) { Score::MAYBE } else { Score::NO };
    let extent = Extent::whole(source, source.open(name)?);
    let mut start = [0; 6];
    if extent.read_start(source, &mut start)? == MAGIC {
        return Ok(Score::CERTAIN);
    }
    if !is_archive(source, extent)? {
        return Ok(by_name);
    }
    match Directory::read(source, extent, Names::Any, context.limits()) {
        Ok(directory) if directory.entries().is_empty() && has_suffix(name, ARCHIVE_SUFFIX) => {
            Ok(Score::LIKELY)
        }
        Ok(directory) => {
            let files = directory.entries().iter().filter(|entry| !entry.name.ends_with('/'));
            let (arrays, others): (Vec<_>, Vec<_>) =
                files.partition(|entry| entry.name.ends_with(ARRAY_SUFFIX));
            Ok(match (arrays.len(), others.len()) {
                (0, _) => by_name,
                (_, 0) => Score::CERTAIN,
                _ => Score::LIKELY,
            })
        }
        Err(error)
            if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) =>
        {
            Ok(by_name)
        }
        Err(error) => Err(error),
    }
}
