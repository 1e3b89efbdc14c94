//! How sure this format is of an input: by the names of its files, and by the end of a table.

use crate::bundle::INDEX_SUFFIX;
use crate::locate::{Checkpoint, locate};
use crate::table::has_magic;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};

/// For a folder. Where one holds the same model in several formats, TensorFlow's comes after those
/// of others: below what their probes give for a folder.
const IN_A_FOLDER: Score = Score(Score::MAYBE.0 - 10);

/// How sure `tf-bundle` is that the source is a checkpoint of either version.
///
/// # Errors
/// I/o.
pub(crate) fn checkpoint(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let is_folder = *source.entry() == Entry::Folder;
    let checkpoint = match locate(source, context) {
        Ok(checkpoint) => checkpoint,
        // The user has to choose, and the reader says among what.
        Err(error) if error.kind() == ErrorKind::Usage => return Ok(IN_A_FOLDER),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Transient | ErrorKind::Cancelled) => {
            return Err(error);
        }
        Err(_) => return Ok(Score::NO),
    };
    let (file, certain) = match checkpoint {
        Checkpoint::V2(prefix) => (format!("{prefix}{INDEX_SUFFIX}"), Score::CERTAIN),
        // LevelDB's own files end as these do.
        Checkpoint::V1(mut files) => (files.pop().unwrap_or_default(), Score::LIKELY),
    };
    let is_table = source.contains(&file) && has_magic(source, source.open(&file)?)?;
    Ok(match (is_table, is_folder) {
        (true, true) => IN_A_FOLDER,
        (true, false) => certain,
        // A broken index beside its data files: the reader says what is broken.
        (false, false) if has_data_files(source, &file)? => Score::MAYBE,
        (false, _) => Score::NO,
    })
}

fn has_data_files(source: &dyn Source, index: &str) -> Result<bool> {
    let prefix = index.strip_suffix(INDEX_SUFFIX).unwrap_or(index);
    Ok(!source.list(&format!("{prefix}.data-"))?.is_empty())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::table::testing::TableBytes;
    use std::collections::BTreeMap;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    fn score(entry: Entry, files: &[(&str, &[u8])]) -> Score {
        let files: BTreeMap<_, _> =
            files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        checkpoint(&MemorySource::new(entry, files), &MemoryContext::default()).unwrap()
    }

    #[test]
    fn the_end_of_a_table_decides() {
        let table = TableBytes::default().finish();
        let file = |name: &str| Entry::File(name.to_owned());
        assert_eq!(score(file("m.index"), &[("m.index", &table)]), Score::CERTAIN);
        let set = [("m.data-00000-of-00001", &b""[..]), ("m.index", &table)];
        assert_eq!(score(file("m.data-00000-of-00001"), &set), Score::CERTAIN);
        assert_eq!(score(Entry::Prefix("m".into()), &set), Score::CERTAIN);
        assert_eq!(score(Entry::Folder, &set), IN_A_FOLDER);
        assert_eq!(score(file("m.ckpt"), &[("m.ckpt", &table)]), Score::LIKELY);
        assert_eq!(score(file("m.ckpt"), &[("m.ckpt", b"PK\x03\x04")]), Score::NO);
        assert_eq!(score(file("m.index"), &[("m.index", b"faiss")]), Score::NO);
    }

    #[test]
    fn a_broken_index_is_left_to_the_reader() {
        let set = [("m.data-00000-of-00001", &b""[..]), ("m.index", b"cut")];
        assert_eq!(score(Entry::File("m.index".into()), &set), Score::MAYBE);
        let two = [("a.index", &b""[..]), ("b.index", b"")];
        assert_eq!(score(Entry::Folder, &two), IN_A_FOLDER);
        assert_eq!(score(Entry::Folder, &[("model.safetensors", b"")]), Score::NO);
    }
}
