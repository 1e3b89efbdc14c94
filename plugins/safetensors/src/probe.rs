//! The probe: nine bytes of a file, or the names in a folder.

use crate::{NAMING, header};
use tensorferry_hub::is_member;
use tensorferry_sdk::{Entry, ErrorKind, Result, Score, Source};

/// How sure it is that the source is safetensors. A file of that name whose bytes are wrong may
/// still be one: then the reader says what is wrong with it.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    let any_member = |prefix| Ok(source.list(prefix)?.iter().any(|name| is_member(&NAMING, name)));
    match source.entry() {
        Entry::File(name) if name.ends_with(NAMING.index_suffix) => Ok(Score::CERTAIN),
        Entry::File(name) => {
            let file = source.open(name)?;
            match header::json_len(source, file) {
                Ok(_) => Ok(Score::CERTAIN),
                Err(error) if error.kind() != ErrorKind::Malformed => Err(error),
                Err(_) if name.ends_with(NAMING.suffix) => Ok(Score::MAYBE),
                Err(_) => Ok(Score::NO),
            }
        }
        Entry::Folder => any_member("").map(|any| if any { Score::CERTAIN } else { Score::NO }),
        // A name that nothing has is a looser hint than a folder: other formats may claim it too.
        Entry::Prefix(prefix) => any_member(prefix).map(|any| if any { Score::LIKELY } else { Score::NO }),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::collections::BTreeMap;
    use tensorferry_sdk::MemorySource;

    fn of_file(name: &str, bytes: &[u8]) -> Score {
        score(&MemorySource::file(name, bytes)).unwrap()
    }

    fn of_folder(names: &[&str]) -> Score {
        let files: BTreeMap<_, _> = names.iter().map(|&name| (name.to_owned(), Vec::new())).collect();
        score(&MemorySource::new(Entry::Folder, files)).unwrap()
    }

    #[test]
    fn bytes_decide() {
        let good = b"\x02\0\0\0\0\0\0\0{}";
        assert_eq!(of_file("any.bin", good), Score::CERTAIN);
        assert_eq!(of_file("any.bin", b"\x03\0\0\0\0\0\0\0{}"), Score::NO);
        assert_eq!(of_file("m.safetensors", b"\x03\0\0\0\0\0\0\0{}"), Score::MAYBE);
        assert_eq!(of_file("m.safetensors", b""), Score::MAYBE);
        assert_eq!(of_file("any.bin", b""), Score::NO);
    }

    #[test]
    fn names_decide() {
        assert_eq!(of_file("model.safetensors.index.json", b""), Score::CERTAIN);
        assert_eq!(of_folder(&["config.json", "m.safetensors"]), Score::CERTAIN);
        assert_eq!(of_folder(&["config.json", "m.bin"]), Score::NO);
    }
}
