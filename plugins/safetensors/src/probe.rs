//! Scores how likely an input is to be a safetensors model, based on the first nine bytes of a file
//! or the file names in a folder.
//!
//! Shards of a distributed checkpoint are also safetensors files, but each contains only a part of
//! every tensor. The formats that join such parts score higher for these files.

use crate::{NAMING, header};
use tensorferry_hub::is_member;
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Entry, ErrorKind, Result, Score, Source};

/// Scores a source. If a file's name matches but its bytes are wrong, it may still be a broken
/// safetensors file. In that case, the reader's error explains what is wrong.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    let members = |prefix| -> Result<Vec<String>> {
        let names = source.list(prefix)?.into_iter();
        Ok(names.filter(|name| is_member(&NAMING, name)).collect())
    };
    match source.entry() {
        Entry::File(name) if NAMING.stem_of_index(name).is_some() => Ok(Score::CERTAIN),
        Entry::File(name) => {
            let file = source.open(name)?;
            match header::json_len(source, file) {
                Ok(_) => Ok(if holds_parts(name) { Score::LIKELY } else { Score::CERTAIN }),
                Err(error) if error.kind() != ErrorKind::Malformed => Err(error),
                Err(_) if has_suffix(name, NAMING.suffix) => Ok(Score::MAYBE),
                Err(_) => Ok(Score::NO),
            }
        }
        Entry::Folder => Ok(match &*members("")? {
            [] => Score::NO,
            members if members.iter().all(|name| holds_parts(name)) => Score::LIKELY,
            _ => Score::CERTAIN,
        }),
        // An input that is a file name prefix scores lower than a folder, because other formats may
        // use the same prefix.
        Entry::Prefix(prefix) => Ok(if members(prefix)?.is_empty() { Score::NO } else { Score::LIKELY }),
    }
}

/// Returns whether a file name is one that torch's `HuggingFaceStorageWriter` gives to the file of
/// a rank, such as `shard-00001-model-00001-of-00001.safetensors`.
fn holds_parts(name: &str) -> bool {
    name.strip_prefix("shard-")
        .is_some_and(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("-model-"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    fn of_file(name: &str, bytes: &[u8]) -> Score {
        score(&MemorySource::file(name, bytes)).unwrap()
    }

    fn of_folder(names: &[&str]) -> Score {
        score(&MemorySource::folder(names.iter().map(|&name| (name, [])))).unwrap()
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
        let parts = "shard-00001-model-00001-of-00001.safetensors";
        assert_eq!(of_folder(&["config.json", parts]), Score::LIKELY);
        assert_eq!(of_folder(&["model.safetensors", parts]), Score::CERTAIN);
        assert_eq!(of_file(parts, b"\x02\0\0\0\0\0\0\0{}"), Score::LIKELY);
    }
}
