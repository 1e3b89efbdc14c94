//! The probe of saved models: the names in a folder, or the first fields of a file.

use crate::message_kind::{self, MessageKind};
use tensorferry_sdk::{Entry, Result, Score, Source};

/// What the message is called in the folder of a saved model, in each form.
pub(crate) const NAMES: [&str; 3] = ["saved_model.pb", "saved_model.pbtxt", "saved_model.cpb"];

/// For a folder. One may hold the same model in another framework's format, which is taken first.
const IN_A_FOLDER: Score = Score(Score::CERTAIN.0 - 10);

/// How sure it is that the source is a saved model.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    let name = match source.entry() {
        Entry::Folder => {
            let any = NAMES.iter().any(|name| source.contains(name));
            return Ok(if any { IN_A_FOLDER } else { Score::NO });
        }
        Entry::Prefix(_) => return Ok(Score::NO),
        Entry::File(name) => name,
    };
    let file_name = name.rsplit('/').next().unwrap_or(name);
    let holds = message_kind::detect(source, source.open(name)?)?;
    Ok(match holds {
        Some((MessageKind::SavedModel, _)) => Score::CERTAIN,
        // Whatever is wrong with it, its reader says so.
        _ if NAMES.contains(&file_name) => Score::LIKELY,
        _ => Score::NO,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::testing::source;
    use tensorferry_sdk::MemorySource;

    #[test]
    fn names_and_first_fields_decide() {
        let file = |name: &str, bytes: &[u8]| score(&MemorySource::file(name, bytes)).unwrap();
        assert_eq!(file("any.pb", &[0x08, 1, 0x12, 0]), Score::CERTAIN);
        assert_eq!(file("any.pbtxt", b"meta_graphs {"), Score::CERTAIN);
        assert_eq!(file("saved_model.pb", b""), Score::LIKELY);
        assert_eq!(file("any.pb", b""), Score::NO);
        let folder = |name: &str| score(&source(Entry::Folder, &[(name, b"")])).unwrap();
        assert_eq!(folder("saved_model.pbtxt"), IN_A_FOLDER);
        assert_eq!(folder("frozen.pb"), Score::NO);
    }
}
