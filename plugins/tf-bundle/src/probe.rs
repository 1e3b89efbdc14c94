//! Scores how likely an input is to be in each of the three formats. The score depends on the file
//! names, the end of a table, or the first fields of a message.

use crate::bundle::INDEX_SUFFIX;
use crate::locate::{Checkpoint, find, is_bundle};
use crate::message_kind::{self, MessageKind};
use crate::saved_model;
use crate::table::has_magic;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};

/// The score of a folder. If a folder contains the same model in several formats, safetensors and
/// torch take precedence, so this score is lower than the scores that their probes return. Export
/// formats (GGUF, ONNX) and array formats score 15 or less. The scores in between are left for
/// other frameworks.
const IN_A_FOLDER: Score = Score(Score::MAYBE.0 - 10);
/// The score of a SavedModel folder, which may also contain the same model in another framework's
/// format. This score is higher than the score of a checkpoint in the folder, because the
/// checkpoint is an older form of the same model.
const SAVED_MODEL_FOLDER: Score = Score(Score::MAYBE.0 - 2);

/// Scores whether the source is a checkpoint of either version.
pub(crate) fn checkpoint(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let is_folder = *source.entry() == Entry::Folder;
    let checkpoint = match find(source, context.limits()) {
        Ok((checkpoint, _)) => checkpoint,
        // The folder contains several checkpoints. The reader reports the choices.
        Err(error) if error.kind() == ErrorKind::Usage => return Ok(IN_A_FOLDER),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Transient) => return Err(error),
        Err(_) => return Ok(Score::NO),
    };
    let (index, certain, is_ours) = match &checkpoint {
        Checkpoint::V2(prefix) => {
            (format!("{prefix}{INDEX_SUFFIX}"), Score::CERTAIN, is_bundle(source, prefix)?)
        }
        // LevelDB's own files end with the same magic bytes.
        Checkpoint::V1(files) => (files.first().cloned().unwrap_or_default(), Score::LIKELY, false),
    };
    let is_table = has_magic(source, source.open(&index)?)?;
    Ok(match (is_table, is_ours) {
        (false, false) => Score::NO,
        _ if is_folder => IN_A_FOLDER,
        (true, _) => certain,
        // The index is damaged. The reader reports the problem with the index.
        (false, true) => Score::MAYBE,
    })
}

pub(crate) fn saved_model(source: &dyn Source) -> Result<Score> {
    let name = match source.entry() {
        Entry::Folder => {
            let any = source.first_of(saved_model::NAMES)?.is_some();
            return Ok(if any { SAVED_MODEL_FOLDER } else { Score::NO });
        }
        Entry::Prefix(_) => return Ok(Score::NO),
        Entry::File(name) => name,
    };
    let file_name = name.rsplit('/').next().unwrap_or(name);
    Ok(match message_kind::detect(source, source.open(name)?)? {
        Some((MessageKind::SavedModel, _)) => Score::CERTAIN,
        // The reader reports the problem with the file.
        _ if saved_model::NAMES.contains(&file_name) => Score::LIKELY,
        _ => Score::NO,
    })
}

/// Scores whether the source is a graph, regardless of its name.
pub(crate) fn graph(source: &dyn Source) -> Result<Score> {
    let Entry::File(name) = source.entry() else { return Ok(Score::NO) };
    Ok(match message_kind::detect(source, source.open(name)?)? {
        Some((MessageKind::Graph, _)) => Score::CERTAIN,
        _ => Score::NO,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::testing::{TableBytes, file, source};
    use tensorferry_sdk::{MemoryContext, MemorySource};

    fn score(entry: Entry, files: &[(&str, &[u8])]) -> Score {
        checkpoint(&source(entry, files), &MemoryContext::default()).unwrap()
    }

    #[test]
    fn the_end_of_a_table_decides() {
        let table = TableBytes::default().finish();
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
        assert_eq!(score(file("m.index"), &set), Score::MAYBE);
        assert_eq!(score(Entry::Folder, &set), IN_A_FOLDER);
        let table = TableBytes::default().finish();
        assert_eq!(score(Entry::Folder, &[("a.index", &table), ("b.index", &table)]), IN_A_FOLDER);
        assert_eq!(score(Entry::Folder, &[("a.index", b"faiss"), ("b.index", b"faiss")]), Score::NO);
        // The data file of a bundle exists, but the index is missing.
        assert_eq!(score(Entry::Prefix("m".into()), &set[..1]), Score::NO);
        // This prefix is incomplete. The reader lists the existing prefixes.
        assert_eq!(score(Entry::Prefix("m".into()), &[("m-1.index", &table)]), IN_A_FOLDER);
        assert_eq!(score(Entry::Folder, &[("model.safetensors", b"")]), Score::NO);
    }
    #[test]
    fn names_and_first_fields_decide() {
        let of_model = |name: &str, bytes: &[u8]| saved_model(&MemorySource::file(name, bytes)).unwrap();
        assert_eq!(of_model("any.pb", &[0x08, 1, 0x12, 0]), Score::CERTAIN);
        assert_eq!(of_model("any.pbtxt", b"meta_graphs {"), Score::CERTAIN);
        assert_eq!(of_model("saved_model.pb", b""), Score::LIKELY);
        assert_eq!(of_model("any.pb", b""), Score::NO);
        let folder = |name: &str| saved_model(&source(Entry::Folder, &[(name, b"")])).unwrap();
        assert_eq!(folder("saved_model.pbtxt"), SAVED_MODEL_FOLDER);
        assert_eq!(folder("frozen.pb"), Score::NO);

        let of_graph = |name: &str, bytes: &[u8]| graph(&MemorySource::file(name, bytes)).unwrap();
        assert_eq!(of_graph("any.pbtxt", b"node {}"), Score::CERTAIN);
        assert_eq!(of_graph("frozen.pb", &[0x0a, 3, 0x12, 1, b'x']), Score::CERTAIN);
        assert_eq!(of_graph("frozen.pb", &[0x08, 1, 0x12, 0]), Score::NO);
        assert_eq!(of_graph("frozen.pb", b""), Score::NO);
    }
}
