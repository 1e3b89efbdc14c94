//! How sure this format is of an input: the container says most, and of a zip archive its directory.

use crate::{SUFFIXES, choose};
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};
use tensorferry_torch_file::archive::Directory;
use tensorferry_torch_file::{Container, Extent};

pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let name = match (source.entry(), choose::file_of(source)) {
        (Entry::Prefix(_), _) => return Ok(Score::NO),
        // A folder may hold the same model in another format, which is then taken first.
        (Entry::Folder, Ok(_)) => return Ok(Score::MAYBE),
        // Several: the reader lists them.
        (Entry::Folder, Err(error)) if error.kind() == ErrorKind::Usage => return Ok(Score::MAYBE),
        (_, Err(_)) => return Ok(Score::NO),
        (Entry::File(name), _) => name,
    };
    let extent = Extent::whole(source, source.open(name)?);
    match Container::detect(source, extent)? {
        Container::Zip => {}
        // The last one cannot be read, but the reader can say what it is.
        Container::Legacy | Container::Tar | Container::Preview => return Ok(Score::CERTAIN),
        Container::Unknown => return Ok(Score::NO),
    }
    match Directory::read(source, extent, context.limits()) {
        Ok(directory) => Ok(score_of(&directory)),
        Err(error)
            if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) =>
        {
            // A broken archive of our name: the reader says what is broken.
            let ours = SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
            Ok(if ours { Score::MAYBE } else { Score::NO })
        }
        Err(error) => Err(error),
    }
}

fn score_of(directory: &Directory) -> Score {
    if directory.contains("data.pkl") || directory.contains("archive_format") {
        Score::CERTAIN
    } else {
        Score::NO
    }
}
