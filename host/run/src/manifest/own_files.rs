//! Excludes the files that ferry itself writes next to data: receipts, journals, reports and plans.
//! Such files are not inputs. Staging folders need no rule here, because they are hidden, and
//! hidden files are always skipped.

use super::folder_names::FolderNames;
use tensorferry::places::InputFolder;
use tensorferry_convert::receipt;
use tensorferry_core::read::own_files::is_journal;

/// Removes receipts from the list of names in a folder. Returns the names of the outputs that the
/// receipts describe.
pub(super) fn take_receipts(names: &mut FolderNames) -> impl Iterator<Item = String> {
    let receipts = names.files.extract_if(.., |name| receipt::is_name(name));
    let receipts: Vec<String> = receipts.collect();
    receipts.into_iter().filter_map(|name| name.strip_suffix(receipt::SUFFIX).map(str::to_owned))
}

/// Removes the other files that ferry writes from the list of names in a folder.
pub(super) fn leave_out(folder: &InputFolder, names: &mut FolderNames) {
    let has = |names: &FolderNames, file: &str| names.files.contains(file);
    if has(names, "plan.json") && names.folders.contains("pieces") {
        *names = FolderNames::default();
    }
    let is_report = folder.path().to_str().is_some_and(|path| path.ends_with(".report"));
    if is_report && has(names, "report.json") && has(names, "report.html") {
        names.files.clear();
    }
    names.files.retain(|name| !is_journal(folder.path(), name));
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::fs;

    fn names(files: &[&str], folders: &[&str]) -> FolderNames {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        FolderNames { files: set(files), folders: set(folders) }
    }

    #[test]
    fn a_journal_is_told_from_data_of_such_a_name() {
        let home = tempfile::tempdir().unwrap();
        let record = "{\"event\":\"begin\",\"at\":\"2026-01-01T00:00:00Z\",\"ferry\":\"1\"}\n";
        for (name, text) in [
            ("zoo.journal.jsonl", record),
            ("zoo.journal.1-of-2.jsonl", record),
            ("my.journal.jsonl", "{\"text\":\"dear diary\"}\n"),
            ("empty.journal.jsonl", ""),
            ("begin.jsonl", record),
        ] {
            fs::write(home.path().join(name), text).unwrap();
        }
        let files = ["zoo.journal.jsonl", "zoo.journal.1-of-2.jsonl", "my.journal.jsonl", "begin.jsonl"];
        let mut found = names(&files, &[]);
        leave_out(&InputFolder::local(home.path().to_owned()), &mut found);
        assert_eq!(found.files.into_iter().collect::<Vec<_>>(), ["begin.jsonl", "my.journal.jsonl"]);
    }

    #[test]
    fn plans_reports_and_receipts_are_left_out() {
        let left = |folder: &str, mut names: FolderNames| {
            leave_out(&InputFolder::local(folder.into()), &mut names);
            names.files.len() + names.folders.len()
        };
        assert_eq!(left("/x/plan", names(&["plan.json"], &["pieces", "journal"])), 0);
        assert_eq!(left("/x/plan", names(&["plan.json"], &["models"])), 2);
        assert_eq!(left("/x/zoo.report", names(&["report.json", "report.html"], &[])), 0);
        assert_eq!(left("/x/mine", names(&["report.json", "report.html"], &[])), 2);
        let mut found = names(&["a.pt", "a.pt.ferry.json", "receipt.ferry.json"], &[]);
        assert_eq!(take_receipts(&mut found).collect::<Vec<_>>(), ["a.pt", "receipt"]);
        assert_eq!(found.files.into_iter().collect::<Vec<_>>(), ["a.pt"]);
    }
}
