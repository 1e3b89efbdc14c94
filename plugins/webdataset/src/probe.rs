//! Scores how likely a source is to be a WebDataset. The score depends on the first file in a tar,
//! or on the file names in a folder. Scores are low, because any tar could be a WebDataset.

use crate::input::{Input, codec_of};
use crate::read::{has_tar_extension, is_member};
use crate::tar::{self, Entry as TarEntry};
use tensorferry_sdk::{Entry, Limits, Result, Score, Source};

/// The score of a folder. The score is low, because a tar in the same folder as a model's weights
/// is usually part of the model.
const IN_A_FOLDER: Score = Score(8);

/// Scores a source by the first blocks of a tar or by the file names in a folder.
pub(crate) fn score(source: &dyn Source, limits: &Limits) -> Result<Score> {
    match source.entry() {
        Entry::File(name) => of_file(source, name, limits),
        _ => Score::by_names(source, is_member, IN_A_FOLDER),
    }
}

fn of_file(source: &dyn Source, name: &str, limits: &Limits) -> Result<Score> {
    let named = has_tar_extension(name);
    let otherwise = if named { Score::MAYBE } else { Score::NO };
    if codec_of(&source.beginning(source.open(name)?, 6)?).is_err() {
        return Ok(otherwise);
    }
    let text = tensorferry_row_text::beginning(source, name, 64 << 10)?;
    let Some(mut input) = Input::of_memory(text) else { return Ok(otherwise) };
    loop {
        match tar::next(&mut input, limits) {
            Ok(Some(TarEntry::File(member))) if tar::is_macos_metadata(&member.path) => {
                let skipped = input.skip(member.size.saturating_add(tar::padding(member.size)));
                if skipped.is_err() {
                    return Ok(otherwise);
                }
            }
            Ok(Some(TarEntry::File(member))) => {
                return Ok(match tar::split(&member.path) {
                    Some(_) if named => Score::LIKELY,
                    Some(_) => Score(20),
                    None => otherwise,
                });
            }
            Ok(Some(TarEntry::Other(_))) => {}
            _ => return Ok(otherwise),
        }
    }
}
