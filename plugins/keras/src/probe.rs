//! Scores how likely an input is to be a Keras file, based on the first bytes of a file or the
//! names in an archive or folder.

use crate::hdf5::find_signature;
use crate::input::{has_keras_suffix, is_shard};
use crate::{ARCHIVE_SUFFIX, CONFIG, MAP_SUFFIX, WEIGHTS};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};
use tensorferry_zip::{Directory, Extent, MAGIC, Names};

/// Score of a folder. It is lower than the scores of formats in which models are originally
/// published. It is higher than the scores of formats to which models are exported.
const IN_A_FOLDER: Score = Score(16);

/// Scores a source. If a file's name matches but its bytes are wrong, it may still be a broken
/// Keras file. In that case, the reader's error explains what is wrong.
pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let name = match source.entry() {
        Entry::Folder => {
            let any = source.list("")?.iter().any(|name| has_keras_suffix(name));
            return Ok(if any { IN_A_FOLDER } else { Score::NO });
        }
        Entry::Prefix(_) => return Ok(Score::NO),
        Entry::File(name) => name,
    };
    if has_suffix(name, MAP_SUFFIX) {
        return Ok(Score::LIKELY);
    }
    let by_name = if has_keras_suffix(name) || is_shard(name) { Score::MAYBE } else { Score::NO };
    let extent = Extent::whole(source, source.open(name)?);
    if let Some(at) = find_signature(source, extent)? {
        // If a userblock precedes the HDF5 data, that data may be part of a file in a different
        // format.
        return Ok(if at == 0 || has_keras_suffix(name) { Score::CERTAIN } else { Score::LIKELY });
    }
    let mut start = [0; 4];
    if extent.read_start(source, &mut start)? != MAGIC {
        return Ok(by_name);
    }
    match Directory::read(source, extent, Names::Any, context.limits()) {
        Ok(directory) if directory.contains(CONFIG) && directory.contains(WEIGHTS) => Ok(Score::CERTAIN),
        Ok(directory) if directory.contains(WEIGHTS) => Ok(Score::LIKELY),
        Ok(_) => Ok(if has_suffix(name, ARCHIVE_SUFFIX) { Score::LIKELY } else { by_name }),
        Err(error)
            if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit) =>
        {
            Ok(by_name)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    #[test]
    fn bytes_and_names_decide() {
        let of = |source: &MemorySource| score(source, &MemoryContext::default()).unwrap();
        let h5 = b"\x89HDF\r\n\x1a\n";
        assert_eq!(of(&MemorySource::file("m", *h5)), Score::CERTAIN);
        assert_eq!(of(&MemorySource::file("m", [&[0; 512][..], h5].concat())), Score::LIKELY);
        assert_eq!(of(&MemorySource::file("m.weights.h5", *b"no")), Score::MAYBE);
        assert_eq!(of(&MemorySource::file("m.bin", *b"no")), Score::NO);
        assert_eq!(of(&MemorySource::file("m.weights.json", *b"{}")), Score::LIKELY);
        assert_eq!(of(&MemorySource::folder([("a.keras", *b""), ("b", *b"")])), IN_A_FOLDER);
        assert_eq!(of(&MemorySource::folder([("b", *b"")])), Score::NO);
    }
}
