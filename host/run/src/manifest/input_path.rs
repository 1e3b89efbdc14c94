//! An input found below a root: a model of a zoo, or a file of a dataset. It has not been opened.

use globset::GlobSet;

/// A model of a zoo, or a file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InputPath {
    /// The path below the root, with `/` between the parts. For a set of shards, that of the first
    /// one.
    pub(super) path: String,
    /// The path without the ending that names the format: `{path}`.
    pub(super) bare: String,
    pub(super) is_folder: bool,
    pub(super) is_root: bool,
    /// For a folder, its files of weights. For a set, all of its shards.
    pub(super) members: Vec<String>,
    /// For a set without an index, the glob of all its shards, which is the job's input.
    pub(super) set: Option<String>,
    /// For a set or an index, the file that the model would be if it were not split.
    pub(super) whole: Option<String>,
}

impl InputPath {
    /// Creates a file with its path without the ending. If the shortened name would refer to
    /// another folder, the ending stays: `..-00001-of-00001.safetensors` must not lead out of an
    /// output's folder.
    pub(super) fn file(path: String, bare: String) -> Self {
        let leads_elsewhere = matches!(bare.rsplit('/').next(), None | Some("" | "." | ".."));
        let bare = if leads_elsewhere { path.clone() } else { bare };
        let (is_folder, is_root, members, set, whole) = (false, false, Vec::new(), None, None);
        Self { path, bare, is_folder, is_root, members, set, whole }
    }

    /// Prepends a folder to the paths.
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

    /// Returns `{parent}`: `.` for the root.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or(".", |(parent, _)| parent)
    }

    /// Returns `{stem}`.
    pub(super) fn stem(&self) -> &str {
        self.bare.rsplit('/').next().unwrap_or_default()
    }

    /// Returns `{name}`.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the job's input relative to the root.
    pub(super) fn input(&self) -> &str {
        self.set.as_deref().unwrap_or(&self.path)
    }

    /// Returns whether a glob matches the path, or that of one of the weights.
    pub(super) fn matches(&self, glob: &GlobSet) -> bool {
        glob.is_match(&self.path) || self.members.iter().any(|member| glob.is_match(member))
    }
}

/// Joins a name to a folder below the root. The root is the empty path.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
