//! A search visits a root folder and its subfolders. It records the entries that it skips, so that
//! ferry can report them.

use super::folder_names::FolderNames;
use super::input_path::join;
use super::own_files;
use globset::GlobSet;
use std::collections::{BTreeMap, HashSet};
use tensorferry::places::InputFolder;
use tensorferry_core::read::folder::{EntryKind, FolderEntry};
use tensorferry_core::read::table_log::TableLog;
use tensorferry_sdk::Result;

/// Maximum nesting depth of folders.
pub(super) const MAX_DEPTH: usize = 64;
/// Maximum number of names that a note lists.
const MAX_NAMED: usize = 3;

pub(super) struct Search<'a> {
    root: &'a InputFolder,
    closed: ClosedFolders,
    /// The entries that the search skipped.
    pub(super) skipped: Vec<SkippedEntry>,
    /// The outputs that have a receipt, represented by the receipts' paths without the ending.
    pub(super) receipts: HashSet<String>,
    /// Folders that contain a table's data files and its log, each with the kind of log.
    pub(super) tables: Vec<(String, &'static TableLog)>,
}

/// The folders that the search does not visit.
#[derive(Default)]
pub(super) struct ClosedFolders {
    /// Folders of outputs, relative to the root.
    pub(super) outputs: HashSet<String>,
    /// Globs of folders that are excluded with all of their contents.
    pub(super) excluded: GlobSet,
}

/// An entry inside the root that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SkippedEntry {
    pub(super) path: String,
    pub(super) why: SkipReason,
}

/// The reason why an entry was skipped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SkipReason {
    /// A pipe, or a link to a missing file (for example, from git-annex, DVC or a pruned cache).
    NoFile,
    /// A link that leads out of the root.
    LeadsOut,
    /// An entry whose name is not UTF-8. The entry may be a folder.
    Unnameable,
    /// A folder that the current user has no permission to read.
    Unreadable,
    /// An index that matches several sets of shards in its folder.
    SeveralSets,
}

impl<'a> Search<'a> {
    pub(super) fn new(root: &'a InputFolder, closed: ClosedFolders) -> Self {
        Self { root, closed, skipped: Vec::new(), receipts: HashSet::new(), tables: Vec::new() }
    }

    pub(super) fn root(&self) -> &'a InputFolder {
        self.root
    }

    /// Returns the names in a folder inside the root. If a local folder cannot be read, returns no
    /// names. If an entry is not a file, but `is_meant` returns true for its name, the entry is
    /// recorded as skipped.
    pub(super) fn read(&mut self, folder: &str, is_meant: &dyn Fn(&str) -> bool) -> Result<FolderNames> {
        let entries = match self.root.in_folder(folder).entries("", "", u64::MAX) {
            Ok(entries) => entries,
            Err(_) if self.root.is_local() && !folder.is_empty() => {
                self.pass_over(folder.to_owned(), SkipReason::Unreadable);
                return Ok(FolderNames::default());
            }
            Err(error) => return Err(error),
        };
        let mut names = FolderNames::default();
        for FolderEntry { name, kind, is_link, .. } in entries {
            match kind {
                EntryKind::Folder if !is_link && self.enters(&join(folder, &name)) => {
                    names.folders.insert(name);
                }
                EntryKind::File => drop(names.files.insert(name)),
                EntryKind::Unnameable if !name.starts_with('.') => {
                    self.pass_over(join(folder, &name), SkipReason::Unnameable);
                }
                EntryKind::Outside if is_meant(&name) => {
                    self.pass_over(join(folder, &name), SkipReason::LeadsOut);
                }
                EntryKind::Other if is_meant(&name) => {
                    self.pass_over(join(folder, &name), SkipReason::NoFile);
                }
                _ => {}
            }
        }
        self.receipts.extend(own_files::take_receipts(&mut names).map(|name| join(folder, &name)));
        let inside = self.root.in_folder(folder);
        if let Some(table) = TableLog::among(&inside, names.folders.iter().map(String::as_str))? {
            self.tables.push((folder.to_owned(), table));
        }
        own_files::leave_out(&inside, &mut names);
        Ok(names)
    }

    fn enters(&self, folder: &str) -> bool {
        !self.closed.outputs.contains(folder) && !self.closed.excluded.is_match(folder)
    }

    pub(super) fn pass_over(&mut self, path: String, why: SkipReason) {
        self.skipped.push(SkippedEntry { path, why });
    }
}

impl SkippedEntry {
    /// Returns whether the globs would have included the skipped entry. The contents of an entry
    /// that may be a folder are unknown. Such an entry counts as included unless a glob excludes
    /// it.
    pub(super) fn is_wanted(&self, include: Option<&GlobSet>, exclude: Option<&GlobSet>) -> bool {
        let may_be_folder = matches!(self.why, SkipReason::Unnameable | SkipReason::Unreadable);
        include.is_none_or(|globs| may_be_folder || globs.is_match(&self.path))
            && !exclude.is_some_and(|globs| globs.is_match(&self.path))
    }
}

/// Returns one note for each reason why entries in a root were skipped.
pub(super) fn notes(root: &str, skipped: &[SkippedEntry]) -> Vec<String> {
    let mut by_reason: BTreeMap<&SkipReason, Vec<&str>> = BTreeMap::new();
    for SkippedEntry { path, why } in skipped {
        by_reason.entry(why).or_default().push(path);
    }
    by_reason.into_iter().map(|(why, paths)| why.note(root, &paths)).collect()
}

impl SkipReason {
    fn note(&self, root: &str, paths: &[&str]) -> String {
        let what = match self {
            Self::NoFile => "skipped links to missing files",
            Self::LeadsOut => "links that lead out of the root",
            Self::Unnameable => "skipped names that are not UTF-8",
            Self::Unreadable => "skipped folders that cannot be read",
            Self::SeveralSets => "shards of several sets next to an index, which selects the shards to read",
        };
        format!("below {root}, {what}: {} ({})", paths.len(), first(paths))
    }
}

fn first(paths: &[&str]) -> String {
    let more = if paths.len() > MAX_NAMED { ", ..." } else { "" };
    format!("{}{more}", paths[..paths.len().min(MAX_NAMED)].join(", "))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use globset::{Glob, GlobSetBuilder};
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_cannot_be_taken_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("a.pt"), "").unwrap();
        fs::create_dir(at("sub")).unwrap();
        symlink("gone", at("b.pt")).unwrap();
        symlink("gone", at("notes.md")).unwrap();
        symlink("a.pt", at("c.pt")).unwrap();
        fs::create_dir(home.path().join(OsStr::from_bytes(b"caf\xe9"))).unwrap();
        let root = InputFolder::local(home.path().to_owned());
        let mut search = Search::new(&root, ClosedFolders::default());
        let names = search.read("", &|name| name.ends_with(".pt")).unwrap();
        assert_eq!(names.files.into_iter().collect::<Vec<_>>(), ["a.pt", "c.pt"]);
        assert_eq!(names.folders.into_iter().collect::<Vec<_>>(), ["sub"]);
        // A folder that has been removed counts as unreadable.
        assert!(search.read("gone", &|_| true).unwrap().files.is_empty());
        let mut reasons: Vec<_> = search.skipped.iter().map(|it| (&*it.path, it.why.clone())).collect();
        reasons.sort();
        assert_eq!(
            reasons,
            [
                ("b.pt", SkipReason::NoFile),
                ("caf\u{fffd}", SkipReason::Unnameable),
                ("gone", SkipReason::Unreadable)
            ]
        );
        let told = notes("models", &search.skipped);
        assert_eq!(told[0], "below models, skipped links to missing files: 1 (b.pt)");
    }

    #[test]
    fn a_closed_folder_is_not_entered() {
        let home = tempfile::tempdir().unwrap();
        for folder in ["out", "secret", "models"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        let excluded = GlobSetBuilder::new().add(Glob::new("sec*").unwrap()).build().unwrap();
        let closed = ClosedFolders { outputs: ["out".to_owned()].into(), excluded };
        let root = InputFolder::local(home.path().to_owned());
        let names = Search::new(&root, closed).read("", &|_| true).unwrap();
        assert_eq!(names.folders.into_iter().collect::<Vec<_>>(), ["models"]);
    }

    #[test]
    fn what_is_excluded_is_not_told() {
        let glob = |text: &str| GlobSetBuilder::new().add(Glob::new(text).unwrap()).build().unwrap();
        let it = |path: &str, why| SkippedEntry { path: path.to_owned(), why };
        let (pt, org) = (glob("*.pt"), glob("org/**"));
        assert!(it("a.pt", SkipReason::NoFile).is_wanted(Some(&pt), Some(&org)));
        assert!(!it("a.pt", SkipReason::NoFile).is_wanted(Some(&org), None));
        assert!(!it("a.pt", SkipReason::NoFile).is_wanted(None, Some(&pt)));
        assert!(it("secret", SkipReason::Unreadable).is_wanted(Some(&org), Some(&pt)));
        assert!(!it("org/x", SkipReason::Unreadable).is_wanted(None, Some(&org)));
    }
}
