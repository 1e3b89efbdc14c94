//! The names of the entries in a folder inside a root.

use std::collections::BTreeSet;

/// The names of a folder's files and subfolders. Links to files count as files.
#[derive(Debug, Default)]
pub(super) struct FolderNames {
    pub(super) files: BTreeSet<String>,
    pub(super) folders: BTreeSet<String>,
}
