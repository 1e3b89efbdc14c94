//! The known entries of a repository at one commit. The content of a commit never changes.

use std::collections::{BTreeMap, BTreeSet};
use tensorferry_core::context::remote::{RemoteEntry, RemoteStamp};

/// An entry of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreeEntry {
    Folder,
    File(TreeFile),
}

/// A file in a repository, with the identifiers of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeFile {
    pub(super) len: u64,
    /// The SHA-256 digest of a large (LFS) file, as hexadecimal digits.
    pub(super) sha256: Option<String>,
    /// Name of the file's blob in git. For a large file, the blob contains the LFS pointer.
    pub(super) oid: String,
}

impl TreeEntry {
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Self::Folder => None,
            Self::File(file) => Some(file.len),
        }
    }
}

impl TreeFile {
    pub(super) fn stamp(&self) -> RemoteStamp {
        let tag = match &self.sha256 {
            Some(sha256) => format!("sha256:{sha256}"),
            None => format!("git-blob:{}", self.oid),
        };
        RemoteStamp { len: self.len, tag, modified: (0, 0) }
    }

    /// Returns the name of the content. The headers `ETag` and `X-Linked-ETag` contain this name,
    /// and the local cache uses it as the file name of the blob.
    pub(super) fn etag(&self) -> &str {
        self.sha256.as_deref().unwrap_or(&self.oid)
    }
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    entries: BTreeMap<String, Option<TreeEntry>>,
    /// Folders whose entries are all known.
    whole: BTreeSet<String>,
}

impl Tree {
    /// Adds all entries of a folder and its sub-folders.
    pub(super) fn add(&mut self, folder: &str, entries: Vec<(String, TreeEntry)>) {
        for (path, known) in entries {
            self.entries.insert(path, Some(known));
        }
        self.whole.insert(folder.to_owned());
    }

    /// Records the entry at a path. `None` records that the path does not exist.
    pub(super) fn note(&mut self, path: &str, known: Option<TreeEntry>) {
        self.entries.insert(path.to_owned(), known);
    }

    fn is_whole(&self, path: &str) -> bool {
        let mut path = path;
        loop {
            if self.whole.contains(path) {
                return true;
            }
            if path.is_empty() {
                return false;
            }
            path = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        }
    }

    /// Returns the entry at a path. Returns `Some(None)` if the path does not exist, and `None` if
    /// it is unknown whether the path exists.
    pub(super) fn find(&self, path: &str) -> Option<Option<TreeEntry>> {
        match self.entries.get(path) {
            Some(found) => Some(found.clone()),
            None => self.is_whole(path).then_some(None),
        }
    }

    /// Returns the entries of a folder, if all of them are known.
    pub(super) fn list(&self, folder: &str) -> Option<Vec<RemoteEntry>> {
        if !self.is_whole(folder) {
            return None;
        }
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let direct = below.filter_map(|(path, known)| {
            let name = path[prefix.len()..].to_owned();
            let known = known.as_ref().filter(|_| !name.contains('/'))?;
            Some(RemoteEntry { name, len: known.len() })
        });
        Some(direct.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_listed_folder_is_known() {
        let file = || TreeEntry::File(TreeFile { len: 5, sha256: None, oid: "o".into() });
        let mut tree = Tree::default();
        assert_eq!(tree.find("a/b"), None);
        tree.add(
            "a",
            vec![("a/b".into(), file()), ("a/c".into(), TreeEntry::Folder), ("a/c/d".into(), file())],
        );
        assert_eq!(tree.find("a/b"), Some(Some(file())));
        assert_eq!(tree.find("a/x"), Some(None));
        assert_eq!(tree.find("x"), None);
        let entry = |name: &str, len| RemoteEntry { name: name.into(), len };
        assert_eq!(tree.list("a").unwrap(), [entry("b", Some(5)), entry("c", None)]);
        assert_eq!(tree.list("a/c").unwrap(), [entry("d", Some(5))]);
        assert_eq!(tree.list(""), None);
    }
}
