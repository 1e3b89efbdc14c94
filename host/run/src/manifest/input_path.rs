//! An input that a search found in a root: a model of a zoo, or a file of a dataset. The input has
//! not been opened.

use globset::GlobSet;

/// A model of a zoo, or a file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InputPath {
    /// The path relative to the root, with `/` between components. For a set of shards, this is the
    /// path of the first shard.
    pub(super) path: String,
    /// The path without the ending that identifies the format. This path is the value of `{path}`.
    pub(super) bare: String,
    pub(super) is_folder: bool,
    pub(super) is_root: bool,
    /// For a folder, its weight files. For a set of shards, all of its shards.
    pub(super) members: Vec<String>,
    /// For a set of shards without an index, the glob that matches all of its shards. The glob is
    /// the input of the job.
    pub(super) set: Option<String>,
    /// For a set or an index, the name that a file with the whole model would have.
    pub(super) whole: Option<String>,
}

impl InputPath {
    /// Creates an input from a file's path, with and without the ending. If the path without the
    /// ending would refer to a different folder, the ending is kept. For example,
    /// `..-00001-of-00001.safetensors` must not lead out of the output folder.
    pub(super) fn file(path: String, bare: String) -> Self {
        let leads_elsewhere = matches!(bare.rsplit('/').next(), None | Some("" | "." | ".."));
        let bare = if leads_elsewhere { path.clone() } else { bare };
        let (is_folder, is_root, members, set, whole) = (false, false, Vec::new(), None, None);
        Self { path, bare, is_folder, is_root, members, set, whole }
    }

    /// Adds a folder in front of the paths.
    pub(super) fn in_folder(self, folder: &str) -> Self {
        let of = |name: String| join(folder, &name);
        Self {
            path: of(self.path),
            bare: of(self.bare),
            members: self.members.into_iter().map(of).collect(),
            set: self.set.map(|glob| join(folder, &glob)),
            whole: self.whole.map(of),
            ..Self::file(String::new(), String::new())
        }
    }

    /// Returns the value of `{parent}`, which is `.` for the root.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or(".", |(parent, _)| parent)
    }

    /// Returns the value of `{stem}`.
    pub(super) fn stem(&self) -> &str {
        self.bare.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the value of `{name}`.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the path or glob that is the job's input, relative to the root.
    pub(super) fn input(&self) -> &str {
        self.set.as_deref().unwrap_or(&self.path)
    }

    /// Returns whether the globs match the input's path or a member's path.
    pub(super) fn matches(&self, glob: &GlobSet) -> bool {
        glob.is_match(&self.path) || self.members.iter().any(|member| glob.is_match(member))
    }
}

/// Joins a name to a folder's path. The root has an empty path.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
