//! How sure this format is of an input: the container says most, and of a zip archive its directory.

use crate::SUFFIXES;
use crate::choose::{NAMING, is_candidate, is_training_state};
use tensorferry_hub::are_ranks_of_one;
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
        // The last one cannot be read, but the reader can say what it is.
        Container::Legacy | Container::Tar | Container::Preview => return Ok(Score::CERTAIN),
        Container::Unknown => return Ok(Score::NO),
    }
    match archive::directory(source, extent, context.limits()) {
        Ok(directory) => Ok(score_of(&directory)),
        Err(error)
            if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) =>
        {
            // A broken archive of our name: the reader says what is broken.
            let ours = has_any_suffix(name, SUFFIXES);
            Ok(if ours { Score::MAYBE } else { Score::NO })
        }
        Err(error) => Err(error),
    }
}

/// Files of such names may be another format's, or no model's (`vocab.bin` beside a SavedModel): those that begin as
/// torch's do, and indexes, come before TensorFlow's; names alone come after every format that knows the folder.
fn in_folder(source: &dyn Source) -> Result<Score> {
    const BY_NAME: Score = Score(1);
    const MOST_OPENED: usize = 16;
    let mut names = source.list("")?;
    // Training state alone is no model: the model may be in a folder below.
    names.retain(|name| is_candidate(name) && !is_training_state(name));
    if names.iter().any(|name| NAMING.stem_of_index(name).is_some()) {
        return Ok(Score::MAYBE);
    }
    // Ranks are not joined: next to a model they are its vendor's own files.
    let models: Vec<&str> = names.iter().map(String::as_str).collect();
    if are_ranks_of_one(&models) {
        return Ok(BY_NAME);
    }
    // Beside a model in another format they are none.
    for name in names.iter().take(MOST_OPENED) {
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

/// Whether a file is one of a model that is called `stem`.
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
