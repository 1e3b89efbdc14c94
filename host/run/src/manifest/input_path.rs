//! An input found below a root: a model of a zoo, or a file of a data set. Nothing is opened for it.

use globset::GlobSet;

/// A model of a zoo, or a file of a data set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InputPath {
    /// Below the root, `/` between the parts. Of a set of shards, the first one's.
    pub(super) path: String,
    /// The same without the ending that names the format: `{path}`.
    pub(super) bare: String,
    pub(super) is_folder: bool,
    pub(super) is_root: bool,
    /// Of a folder, the files in it that are weights; of a set, all of its shards.
    pub(super) members: Vec<String>,
    /// Of a set without an index, the glob of all its shards, which is the job's input.
    pub(super) set: Option<String>,
    /// Of a set or an index, the file that the model would be if it were not split.
    pub(super) whole: Option<String>,
}

impl InputPath {
    /// A file, and its path without the ending. A name that would be another folder's without it keeps it:
    /// `..-00001-of-00001.safetensors` is no way out of an output's folder.
    pub(super) fn file(path: String, bare: String) -> Self {
        let leads_elsewhere = matches!(bare.rsplit('/').next(), None | Some("" | "." | ".."));
        let bare = if leads_elsewhere { path.clone() } else { bare };
        let (is_folder, is_root, members, set, whole) = (false, false, Vec::new(), None, None);
        Self { path, bare, is_folder, is_root, members, set, whole }
    }

    /// The same, found in a folder.
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

    /// `{parent}`: `.` for the root.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or(".", |(parent, _)| parent)
    }

    /// `{stem}`.
    pub(super) fn stem(&self) -> &str {
        self.bare.rsplit('/').next().unwrap_or_default()
    }

    /// `{name}`.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// What the job's input is called below the root.
    pub(super) fn input(&self) -> &str {
        self.set.as_deref().unwrap_or(&self.path)
    }

    /// Whether a glob matches its path, or the path of one of its weights.
    pub(super) fn matches(&self, glob: &GlobSet) -> bool {
        glob.is_match(&self.path) || self.members.iter().any(|member| glob.is_match(member))
    }
}

/// The path of a name in a folder below the root, which is the empty path.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
