//! Scores how likely an input is to be a Megatron checkpoint, by the names of its files and
//! folders.

use crate::run_folder::{TRACKER, distributed, newest, one_rank, rank_folders};
use tensorferry_sdk::{Entry, ErrorKind, Result, Score, Source};

/// Score of a folder with one rank's files. It is higher than the score of the torch format, which
/// would read the folder as a model. If the folder also contains a transformers model, it is not a
/// Megatron checkpoint.
const ONE_RANK: Score = Score(40);

pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    match source.entry() {
        Entry::Folder => {}
        Entry::File(name) if name == TRACKER => {}
        Entry::File(_) | Entry::Prefix(_) => return Ok(Score::NO),
    }
    let folder = match newest(source) {
        Ok(Some(folder)) => folder,
        Ok(None) => String::new(),
        // Only Megatron writes a tracker file with this name, so let the reader report what is
        // wrong with the file.
        Err(error) if error.kind() == ErrorKind::Malformed => return Ok(Score::CERTAIN),
        Err(error) => return Err(error),
    };
    if one_rank(source)?.is_some() {
        return Ok(ONE_RANK);
    }
    if !folder.is_empty() && distributed(source, None)?.is_some() {
        return Ok(Score::CERTAIN);
    }
    match rank_folders(source, &folder) {
        Ok(folders) if !folders.is_empty() => Ok(Score::CERTAIN),
        Ok(_) => Ok(Score::NO),
        Err(error) if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Io) => Ok(Score::NO),
        Err(error) => Err(error),
    }
}
