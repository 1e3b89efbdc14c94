//! Scores whether an input is in this format. If the first record length in a file has a valid
//! checksum, the file is certain to be in this format. This check also supports compressed files.
//! Otherwise, the score depends on the file name.

use crate::codec::sniff;
use crate::files::{find, has_record_name};
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};

/// The score of a folder. The score is low, because a model in the same folder takes precedence
/// over record files.
const IN_A_FOLDER: Score = Score(Score::MAYBE.0 - 10);
/// Maximum number of files that are examined in a folder.
const MAX_FILES: usize = 4;

pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let names = match find(&source, None, context.limits()) {
        Ok(names) => names,
        // The input is ambiguous or a shard is missing. The reader reports the error.
        Err(error) if error.kind() == ErrorKind::Usage => return Ok(in_folder(source, Score::MAYBE)),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Transient) => return Err(error),
        Err(_) => {
            let (Entry::File(start) | Entry::Prefix(start)) = source.entry() else {
                let is_ours = source.list("")?.iter().any(|name| has_record_name(name));
                return Ok(in_folder(source, if is_ours { Score::MAYBE } else { Score::NO }));
            };
            let is_ours =
                has_record_name(start) || source.list(start)?.iter().any(|name| has_record_name(name));
            return Ok(if is_ours { Score::MAYBE } else { Score::NO });
        }
    };
    let mut score = Score::NO;
    for name in names.iter().take(MAX_FILES) {
        let file = source.open(name)?;
        if sniff(&source, file, context.limits())?.is_certain {
            return Ok(in_folder(source, Score::CERTAIN));
        }
        // The file name indicates a record file, even if the file is empty or damaged.
        if has_record_name(name) {
            score = score.max(if source.len(file) == 0 { Score::LIKELY } else { Score::MAYBE });
        }
    }
    Ok(in_folder(source, score))
}

fn in_folder(source: &dyn Source, score: Score) -> Score {
    if *source.entry() == Entry::Folder { score.min(IN_A_FOLDER) } else { score }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::frame;
    use std::collections::BTreeMap;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    fn score_of(entry: Entry, files: &[(&str, &[u8])]) -> Score {
        let files: BTreeMap<_, _> =
            files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        score(&MemorySource::new(entry, files), &MemoryContext::default()).unwrap()
    }

    #[test]
    fn the_first_length_decides_whatever_the_name() {
        let mut record = Vec::new();
        frame::append(&mut record, b"abc");
        let file = |name: &str| Entry::File(name.to_owned());
        assert_eq!(score_of(file("data.bin"), &[("data.bin", &record)]), Score::CERTAIN);
        let snappy = snap::raw::Encoder::new().compress_vec(&record).unwrap();
        let block = [&u32::try_from(snappy.len()).unwrap().to_be_bytes()[..], &snappy].concat();
        assert_eq!(score_of(file("x"), &[("x", &block)]), Score::CERTAIN);
        record[0] ^= 1;
        assert_eq!(score_of(file("data.bin"), &[("data.bin", &record)]), Score::NO);
        assert_eq!(score_of(file("data.tfrecord"), &[("data.tfrecord", &record)]), Score::MAYBE);
        assert_eq!(score_of(file("data.tfrecord"), &[("data.tfrecord", b"")]), Score::LIKELY);
        assert_eq!(
            score_of(file("model.safetensors"), &[("model.safetensors", b"\x02\0\0\0\0\0\0\0{}")]),
            Score::NO
        );
    }

    #[test]
    fn a_folder_comes_after_the_models_in_it() {
        let mut record = Vec::new();
        frame::append(&mut record, b"abc");
        assert_eq!(score_of(Entry::Folder, &[("a.tfrecord", &record)]), IN_A_FOLDER);
        assert_eq!(score_of(Entry::Folder, &[("a", b"text")]), Score::NO);
        assert_eq!(score_of(Entry::Prefix("a".into()), &[("a.tfrecord", &record)]), Score::CERTAIN);
        // The set is incomplete. The reader reports which files are missing.
        let part = [("a.tfrecord-00000-of-00002", &record[..])];
        assert_eq!(score_of(Entry::Folder, &part), IN_A_FOLDER);
        assert_eq!(score_of(Entry::Prefix("a".into()), &part), Score::MAYBE);
    }
}
