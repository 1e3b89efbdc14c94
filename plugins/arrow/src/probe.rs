//! Detection of Arrow IPC. A file is detected by its first bytes, and a folder by the file names in
//! it.

use crate::read::{is_member, is_schema};
use crate::{CONTINUATION, FEATHER_V1, MAGIC, SUFFIXES};
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Entry, Result, Score, Source};

/// Maximum number of bytes of a schema that detection reads.
const LOOKED_AT: u64 = 4 << 20;

/// Scores a source. A file with an Arrow name but wrong bytes still gets `MAYBE`, so that the
/// reader can report what is wrong with it.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    match source.entry() {
        Entry::File(name) => of_file(source, name),
        _ => Score::by_names(source, is_member, Score::LIKELY),
    }
}

fn of_file(source: &dyn Source, name: &str) -> Result<Score> {
    let file = source.open(name)?;
    let len = source.len(file);
    let mut first = [0; 8];
    let looked = usize::try_from(len).unwrap_or(usize::MAX).min(first.len());
    source.read_at(file, 0, &mut first[..looked])?;
    if first.starts_with(MAGIC) {
        return Ok(Score::CERTAIN);
    }
    let named = has_any_suffix(name, SUFFIXES);
    let otherwise = if named { Score::MAYBE } else { Score::NO };
    if first.starts_with(FEATHER_V1) {
        return Ok(if named { Score::CERTAIN } else { Score::LIKELY });
    }
    let is_new = first.starts_with(&CONTINUATION);
    let [a, b, c, d, e, f, g, h] = first;
    let (at, metadata) = if is_new { (8, [e, f, g, h]) } else { (4, [a, b, c, d]) };
    let metadata = u64::from(u32::from_le_bytes(metadata));
    if metadata < 8 || metadata > len.saturating_sub(at) || metadata > LOOKED_AT {
        return Ok(otherwise);
    }
    let mut bytes = vec![0; usize::try_from(metadata).unwrap_or(0)];
    source.read_at(file, at, &mut bytes)?;
    Ok(if is_schema(&bytes) { Score::CERTAIN } else { otherwise })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    #[test]
    fn bytes_and_names_decide() {
        let of = |name: &str, bytes: &[u8]| score(&MemorySource::file(name, bytes)).unwrap();
        assert_eq!(of("any", b"ARROW1\0\0"), Score::CERTAIN);
        assert_eq!(of("any", b"FEA1...."), Score::LIKELY);
        assert_eq!(of("any", b"\xff\xff\xff\xff\x08\0\0\0........"), Score::NO);
        assert_eq!(of("any", b"\x08\0\0\0........"), Score::NO);
        assert_eq!(of("a.arrows", b""), Score::MAYBE);
        let folder =
            |names: &[&str]| score(&MemorySource::folder(names.iter().map(|&name| (name, [])))).unwrap();
        assert_eq!(folder(&["dataset_info.json", "data-00000-of-00001.arrow"]), Score::LIKELY);
        assert_eq!(folder(&["A.ARROW"]), Score::LIKELY);
        assert_eq!(folder(&[".a.arrow", "_b.feather", "c.csv"]), Score::NO);
    }
}
