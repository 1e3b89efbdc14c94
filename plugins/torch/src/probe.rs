//! Scores how likely an input is to be a PyTorch checkpoint. The score depends mostly on the
//! container of the file. For a zip archive, it depends on the archive's directory.

use crate::SUFFIXES;
use crate::choose::{NAMING, is_candidate, is_training_state};
use tensorferry_hub::are_ranks_of_one_model;
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};
use tensorferry_torch_file::archive::{self, Directory};
use tensorferry_torch_file::{Container, Extent};

pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let name = match source.entry() {
        Entry::Folder => return in_folder(source),
        Entry::Prefix(prefix) => {
            return Ok(maybe(source.list(prefix)?.iter().any(|name| is_split(prefix, name))));
        }
        Entry::File(name) if NAMING.stem_of_index(name).is_some() => return Ok(Score::CERTAIN),
        Entry::File(name) => name,
    };
    let extent = Extent::whole(source, source.open(name)?);
    match Container::detect(source, extent)? {
        Container::Zip => {}
        // The reader cannot read archives of preview versions of `torch.export`, but its error
        // message names this format.
        Container::Legacy | Container::Tar | Container::Preview => return Ok(Score::CERTAIN),
        Container::Unknown => return Ok(Score::NO),
    }
    match archive::directory(source, extent, context.limits()) {
        Ok(directory) => Ok(score_of(&directory)),
        Err(error)
            if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) =>
        {
            // If the name has a PyTorch suffix, the score lets the reader report how the archive is
            // broken.
            let ours = has_any_suffix(name, SUFFIXES);
            Ok(if ours { Score::MAYBE } else { Score::NO })
        }
        Err(error) => Err(error),
    }
}

/// Scores a folder. Files with PyTorch suffixes may be files of a different format, or not be part
/// of a model (`vocab.bin` next to a SavedModel). If the folder contains an index or a file in a
/// PyTorch container, it scores higher than TensorFlow formats. If only the file names match, it
/// scores lower than every other format that recognizes the folder.
fn in_folder(source: &dyn Source) -> Result<Score> {
    const BY_NAME: Score = Score(1);
    const MAX_OPENED: usize = 16;
    let mut names = source.list("")?;
    // Training state is not a model, and the model may be in a subfolder.
    names.retain(|name| is_candidate(name) && !is_training_state(name));
    if names.iter().any(|name| NAMING.stem_of_index(name).is_some()) {
        return Ok(Score::MAYBE);
    }
    // The reader does not join the files of several ranks. If the folder also contains a model in a
    // different format, these files are the vendor's original release of that model.
    let models: Vec<&str> = names.iter().map(String::as_str).collect();
    if are_ranks_of_one_model(&models) {
        return Ok(BY_NAME);
    }
    // If the folder contains a model in a different format, files with PyTorch suffixes may not be
    // checkpoints.
    for name in names.iter().take(MAX_OPENED) {
        let extent = Extent::whole(source, source.open(name)?);
        if Container::detect(source, extent)? != Container::Unknown {
            return Ok(Score::MAYBE);
        }
    }
    Ok(if names.is_empty() { Score::NO } else { BY_NAME })
}

fn maybe(may_be: bool) -> Score {
    if may_be { Score::MAYBE } else { Score::NO }
}

/// Returns whether a file is a part of the model named `stem`: its only file, its index or one of
/// its shards.
fn is_split(stem: &str, name: &str) -> bool {
    let is_shard = || NAMING.shard(name).is_some_and(|shard| shard.stem == stem);
    let is_index = || NAMING.stem_of_index(name).as_deref() == Some(stem);
    name.strip_prefix(stem) == Some(NAMING.suffix) || is_index() || is_shard()
}

fn score_of(directory: &Directory) -> Score {
    if directory.contains("data.pkl") || directory.contains("archive_format") {
        Score::CERTAIN
    } else {
        Score::NO
    }
}
