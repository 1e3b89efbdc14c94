//! The names in a folder below a root.

use std::collections::BTreeSet;

/// A folder's files, links to files too, and its folders.
#[derive(Debug, Default)]
pub(super) struct FolderNames {
    pub(super) files: BTreeSet<String>,
    pub(super) folders: BTreeSet<String>,
}
