//! The names in a folder below a root.

use std::collections::BTreeSet;

/// The names of a folder's files, including links to files, and of its folders.
#[derive(Debug, Default)]
pub(super) struct FolderNames {
    pub(super) files: BTreeSet<String>,
    pub(super) folders: BTreeSet<String>,
}
