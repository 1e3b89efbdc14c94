//! Files that ferry itself writes next to data and that are not data: receipts, and the journals of
//! runs.

use crate::context::regular_file;
use crate::read::folder::is_url;
use std::io::Read;
use std::path::Path;

/// Suffix of a receipt.
pub const RECEIPT: &str = ".ferry.json";

/// The first bytes of every journal.
const JOURNAL_PREFIX: &[u8] = b"{\"event\":\"begin\",\"at\":\"";

/// Returns whether a file in a folder was written by ferry itself and is not data.
pub fn is_own(folder: &Path, name: &str) -> bool {
    name.ends_with(RECEIPT) || is_journal(folder, name)
}

/// Returns whether a file in a folder is a journal: `NAME.journal.jsonl`, or
/// `NAME.journal.1-of-2.jsonl` for a shard. A data file may have such a name, but begins with
/// different bytes. In an object store, only plans have journals.
#[must_use]
pub fn is_journal(folder: &Path, name: &str) -> bool {
    if !name.contains(".journal.") || !name.ends_with(".jsonl") || folder.to_str().is_some_and(is_url) {
        return false;
    }
    let mut start = [0; JOURNAL_PREFIX.len()];
    let read = regular_file::open(&folder.join(name)).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == JOURNAL_PREFIX
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_journal_is_told_from_data_of_such_a_name() {
        let home = tempfile::tempdir().unwrap();
        let record = "{\"event\":\"begin\",\"at\":\"2026-01-01T00:00:00Z\",\"ferry\":\"1\"}\n";
        for (name, text, is_ours) in [
            ("zoo.journal.jsonl", record, true),
            ("zoo.journal.1-of-2.jsonl", record, true),
            ("my.journal.jsonl", "{\"text\":\"dear diary\"}\n", false),
            ("empty.journal.jsonl", "", false),
            ("begin.jsonl", record, false),
            ("p.parquet.ferry.json", "", true),
            ("ferry.json", "", false),
        ] {
            std::fs::write(home.path().join(name), text).unwrap();
            assert_eq!(is_own(home.path(), name), is_ours, "{name}");
        }
    }
}
