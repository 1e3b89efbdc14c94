//! Detection of Parquet inputs. A file is detected by its first and last four bytes, and a folder
//! by its file names.

use crate::read::{is_member, partitions};
use crate::{ENCRYPTED_MAGIC, MAGIC, SUFFIXES};
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Entry, Result, Score, Source};

/// Scores a source. A file with a Parquet name but wrong bytes still scores `MAYBE`, so that the
/// reader can report the problem.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    match source.entry() {
        Entry::File(name) => {
            let file = source.open(name)?;
            let len = source.len(file);
            let named = has_any_suffix(name, SUFFIXES);
            let otherwise = if named { Score::MAYBE } else { Score::NO };
            if len < 12 {
                return Ok(otherwise);
            }
            let mut ends = [[0; 4]; 2];
            source.read_at(file, 0, &mut ends[0])?;
            source.read_at(file, len - 4, &mut ends[1])?;
            let is = |end: &[u8; 4]| end == MAGIC || end == ENCRYPTED_MAGIC;
            Ok(match (is(&ends[0]), is(&ends[1])) {
                (true, true) => Score::CERTAIN,
                (true, false) => Score::LIKELY,
                _ => otherwise,
            })
        }
        Entry::Folder => Ok(if partitions::has_partitions(source)? { Score::CERTAIN } else { Score::NO }),
        Entry::Prefix(_) => Score::by_names(source, is_member, Score::LIKELY),
    }
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
        assert_eq!(of_file("any", b"PAR1....PAR1"), Score::CERTAIN);
        assert_eq!(of_file("any", b"PARE....PARE"), Score::CERTAIN);
        assert_eq!(of_file("any", b"PAR1........"), Score::LIKELY);
        assert_eq!(of_file("any", b"PAR1"), Score::NO);
        assert_eq!(of_file("A.PARQUET", b""), Score::MAYBE);
        assert_eq!(of_file("a.parquet", b"............"), Score::MAYBE);
    }

    #[test]
    fn names_decide() {
        assert_eq!(of_folder(&["a.parquet", "README.md"]), Score::CERTAIN);
        assert_eq!(of_folder(&["A.PARQUET"]), Score::CERTAIN);
        assert_eq!(of_folder(&["year=2024/month=1/a.parquet"]), Score::CERTAIN);
        assert_eq!(of_folder(&["data/a.parquet", "year=2024/a.csv"]), Score::NO);
        assert_eq!(of_folder(&["_metadata", ".a.parquet", "_b.parquet"]), Score::NO);
    }
}
