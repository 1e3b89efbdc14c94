//! Detection of GGUF. A file is detected by its first bytes, and a folder by the file names in it.

use crate::cursor::Cursor;
use crate::set::is_member;
use crate::{MAGIC, SUFFIX, header};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Context, Entry, ErrorKind, Result, Score, Source};

/// Score of a folder. If the folder also contains a model in a different format, a GGUF file is
/// probably an export of that model, so it ranks lower. GGUF ranks above ONNX and NumPy arrays.
const IN_A_FOLDER: Score = Score(14);

/// Scores a source. A file with the right name or magic gets a score even if other bytes are wrong,
/// so that the reader can report what is wrong with the file.
pub(crate) fn score(source: &dyn Source, context: &dyn Context) -> Result<Score> {
    let Entry::File(name) = source.entry() else {
        return Score::by_names(source, is_member, IN_A_FOLDER);
    };
    let file = source.open(name)?;
    let mut magic = [0; MAGIC.len()];
    let is_long = source.len(file) >= magic.len() as u64;
    if is_long {
        source.read_at(file, 0, &mut magic)?;
    }
    let begins = is_long && magic == *MAGIC;
    match header::byte_order(&mut Cursor::new(source, file, context.limits())) {
        Ok(_) => Ok(Score::CERTAIN),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Transient) => Err(error),
        Err(_) if begins => Ok(Score::LIKELY),
        Err(_) if has_suffix(name, SUFFIX) => Ok(Score::MAYBE),
        Err(_) => Ok(Score::NO),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    fn of(source: &MemorySource) -> Score {
        score(source, &MemoryContext::default()).unwrap()
    }

    #[test]
    fn bytes_and_names_decide() {
        assert_eq!(of(&MemorySource::file("m", *b"GGUF\x03\0\0\0")), Score::CERTAIN);
        assert_eq!(of(&MemorySource::file("m", *b"GGUF\0\0\0\x03")), Score::CERTAIN);
        assert_eq!(of(&MemorySource::file("m", *b"GGUF\x01\0\0\0")), Score::LIKELY);
        assert_eq!(of(&MemorySource::file("m.gguf", *b"GG")), Score::MAYBE);
        assert_eq!(of(&MemorySource::file("m.bin", *b"GGML")), Score::NO);
        assert_eq!(of(&MemorySource::folder([("a.gguf", *b""), ("b", *b"")])), IN_A_FOLDER);
        assert_eq!(of(&MemorySource::folder([(".a.gguf", *b"")])), Score::NO);
    }
}
