//! Workarounds for files whose old writers stored incorrect metadata.

/// Maximum length of a dictionary page header.
const MAX_DICTIONARY_HEADER: u64 = 100;

/// Writers with known errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldWriter {
    Other,
    /// parquet-cpp before 2.0, as included in Arrow before 3.0. Its version 2 pages are compressed,
    /// but their headers mark them as not compressed.
    Cpp,
    /// parquet-mr before 1.2.9. It stores the length of a chunk without the header of the
    /// dictionary page.
    Mr,
}

impl OldWriter {
    /// Identifies the writer from its name in a footer, such as `parquet-mr version 1.2.8 (build
    /// ...)`.
    pub(super) fn named(created_by: Option<&str>) -> Self {
        let text = created_by.unwrap_or_default().trim();
        let (name, version) = text.split_once(" version ").unwrap_or((text, ""));
        let mut numbers = version.split(['.', ' ', '-', '(']).map(|part| part.parse::<u32>().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        match (name, [next(), next(), next()]) {
            ("parquet-cpp", version) if version < [2, 0, 0] => Self::Cpp,
            ("parquet-mr", version) if version < [1, 2, 9] => Self::Mr,
            _ => Self::Other,
        }
    }

    /// Returns the corrected length of a chunk. The corrected chunk never extends beyond the file.
    pub(super) fn chunk_len(self, start: u64, len: u64, file_len: u64) -> u64 {
        let left = file_len.saturating_sub(start).saturating_sub(len);
        if self == Self::Mr { len + left.min(MAX_DICTIONARY_HEADER) } else { len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_known_by_their_versions() {
        for (text, expected) in [
            ("parquet-cpp version 1.5.1-SNAPSHOT", OldWriter::Cpp),
            ("parquet-cpp-arrow version 2.0.0", OldWriter::Other),
            ("parquet-cpp version 2.0.0", OldWriter::Other),
            ("parquet-mr version 1.2.8 (build abc)", OldWriter::Mr),
            ("parquet-mr", OldWriter::Mr),
            ("parquet-mr version 1.2.9", OldWriter::Other),
            ("parquet-mr version 1.13.1 (build db4183109d5b)", OldWriter::Other),
            ("", OldWriter::Other),
        ] {
            assert_eq!(OldWriter::named(Some(text)), expected, "{text}");
        }
        assert_eq!(OldWriter::Mr.chunk_len(4, 10, 50), 46);
        assert_eq!(OldWriter::Mr.chunk_len(4, 10, 500), 110);
        assert_eq!(OldWriter::Other.chunk_len(4, 10, 50), 10);
    }
}
