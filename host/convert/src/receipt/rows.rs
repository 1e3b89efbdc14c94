//! The digest of all rows of an output, computed from the digests of its files' columns.
//!
//! ```text
//! rows = BLAKE3("tensorferry rows 1\n"
//!               u64 LE: number of files, then for each, in order: u64 LE: its rows
//!                 u64 LE: number of columns with a digest, then for each, sorted by name bytewise:
//!                 u64 LE: bytes of the name, the name, the column's digest (32 bytes))
//! ```

use tensorferry_tensors::content::ContentDigest;

const ROWS: &[u8] = b"tensorferry rows 1\n";

/// Computes the digest of all rows. Each item of `files` contains the number of rows of one file,
/// and the digests of the file's columns by name.
pub fn rows_digest<'a, C>(files: impl ExactSizeIterator<Item = (u64, C)>) -> ContentDigest
where
    C: IntoIterator<Item = (&'a str, ContentDigest)>,
{
    let mut hasher = blake3::Hasher::new();
    hasher.update(ROWS).update(&(files.len() as u64).to_le_bytes());
    for (rows, columns) in files {
        let mut columns: Vec<(&str, ContentDigest)> = columns.into_iter().collect();
        columns.sort_unstable();
        hasher.update(&rows.to_le_bytes()).update(&(columns.len() as u64).to_le_bytes());
        for (name, digest) in columns {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(&digest);
        }
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::rows_digest;

    #[test]
    fn all_rows_count_files_and_names() {
        let (a, b) = ([1; 32], [2; 32]);
        let one = rows_digest([(1, [("a", a), ("b", b)])].into_iter());
        assert_eq!(one, rows_digest([(1, [("b", b), ("a", a)])].into_iter()));
        assert_ne!(one, rows_digest([(2, [("a", a), ("b", b)])].into_iter()));
        assert_ne!(one, rows_digest([(1, vec![("a", a)]), (0, vec![])].into_iter()));
    }
}
