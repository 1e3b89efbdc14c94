//! Own files are what the program leaves beside data, and is none of it: receipts, and the journals of runs.

/// What a receipt's name ends in.
const RECEIPT: &str = ".ferry.json";
/// A journal is `NAME.journal.jsonl`, of a part of a run `NAME.journal.2-of-8.jsonl`.
const JOURNAL: &str = ".journal";
const JOURNAL_ENDING: &str = ".jsonl";

/// Whether a file of this name is one.
pub(super) fn is_own(name: &str) -> bool {
    let is_journal = || {
        let name = name.strip_suffix(JOURNAL_ENDING)?;
        let (_, part) = name.rsplit_once(JOURNAL)?;
        let is_part = part.strip_prefix('.').is_some_and(|part| part.contains("-of-"));
        Some(part.is_empty() || is_part)
    };
    name.ends_with(RECEIPT) || is_journal().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_and_journals_are_no_data() {
        for own in
            ["p.parquet.ferry.json", "receipt.ferry.json", "zoo.journal.jsonl", "zoo.journal.2-of-8.jsonl"]
        {
            assert!(is_own(own), "{own}");
        }
        for data in ["ferry.json", "journal.jsonl", "my.journals.jsonl", "a.journal.b.jsonl", "p.json"] {
            assert!(!is_own(data), "{data}");
        }
    }
}
