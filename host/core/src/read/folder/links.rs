//! Decides which links in a folder are followed.
//!
//! In an untrusted folder, any file may be a link to a private file. Links that lead out of the
//! folder are therefore not followed, except into the cache of `huggingface_hub`. `--follow-links`
//! allows such links for weights and records. Files whose bytes go into an output unchanged (text,
//! tokenizers, configurations, assets) are never read through a link that leads out of the folder.
//! The same applies to files that a model names by a path (ONNX external data). A path that the
//! user named is always followed.

use crate::context::session::LinkRules;
use crate::platform::{real_path, real_path_of};
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use tensorferry_sdk::Error;

/// The reason why ferry does not read an entry whose link leads out of the folder.
pub const LEADS_OUT: &str = "is a link that leads out of the folder";
/// The hint for the user in errors about such links.
pub(crate) const ADVICE: &str =
    "copy the file into the folder, or pass --follow-links (in a manifest: follow_links = true)";
const COPY: &str =
    "copy the file into the folder: it is never read from elsewhere, not even with --follow-links";

/// Suffixes of files next to weights that are copied to outputs unchanged.
const COMPANIONS: [&str; 14] = [
    "jinja", "json", "txt", "md", "model", "py", "yaml", "yml", "toml", "xml", "html", "vocab", "tiktoken",
    "spm",
];
/// Files that have companion suffixes but are parts of weights or records.
const INDEXES: [&str; 4] =
    ["index.json", "state.json", "dataset_info.json", "latest_checkpointed_iteration.txt"];
/// Substrings in the names of other files that are parts of weights or records.
const INDEX_SUBSTRINGS: [&str; 2] = [".index.", ".weights.json"];
/// Folders whose files are used by other programs but not by ferry.
const ASSETS: [&str; 2] = ["assets", "assets.extra"];

/// The purpose for which files of a folder are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The folder's files are weights, records, and the files next to them.
    Input,
    /// The folder's files go into an output unchanged, or another file names them by a path.
    Companions,
    /// The folder's files are only checked against a receipt. The files may have been moved since
    /// the receipt was written.
    Check,
}

/// The rules for links in a local folder.
#[derive(Debug, Clone)]
pub(super) struct Links {
    /// The folder, as the user named it.
    top: PathBuf,
    rules: LinkRules,
    purpose: Purpose,
    /// The file in the folder that the user named as the input.
    named: Option<PathBuf>,
    /// The folders that links may lead into.
    allowed_folders: OnceLock<Vec<PathBuf>>,
}

impl Links {
    pub(super) fn of(top: PathBuf, rules: LinkRules) -> Self {
        Self { top, rules, purpose: Purpose::Input, named: None, allowed_folders: OnceLock::new() }
    }

    pub(super) fn following(&self, follow: bool) -> Self {
        Self { rules: LinkRules { follow, ..self.rules.clone() }, ..self.clone() }
    }

    /// Returns the error for a file that is not read because its link leads out of the folder.
    pub(super) fn error(&self, name: &str) -> Error {
        let advice = if self.purpose == Purpose::Companions { COPY } else { ADVICE };
        not_followed(name).hint(advice)
    }

    pub(super) fn with_purpose(&self, purpose: Purpose) -> Self {
        Self { purpose, ..self.clone() }
    }

    /// Marks this file as named by the user, unless the input was found below a searched folder.
    pub(super) fn naming(&self, file: PathBuf) -> Self {
        Self { named: Some(file).filter(|_| self.rules.root.is_none()), ..self.clone() }
    }

    /// Returns whether the target of a path may be read.
    pub(super) fn admit(&self, path: &Path) -> bool {
        self.admits_any(path) || real_path(path).is_none_or(|real| self.admit_real(path, &real))
    }

    /// Returns whether an opened file may be read. Checks the open file itself, so replacing the
    /// file at the path after it was opened has no effect.
    pub(super) fn admit_file(&self, path: &Path, file: &File) -> bool {
        self.admits_any(path) || real_path_of(file, path).is_none_or(|real| self.admit_real(path, &real))
    }

    fn admits_any(&self, path: &Path) -> bool {
        self.purpose == Purpose::Check || self.named.as_deref() == Some(path)
    }

    fn admit_real(&self, path: &Path, real: &Path) -> bool {
        let name = path.strip_prefix(&self.top).unwrap_or(path);
        let may_be_elsewhere = || {
            self.purpose == Purpose::Input
                && !is_companion(name)
                && (self.rules.follow || blobs_of(real).is_some())
        };
        self.allowed_folders().iter().any(|home| real.starts_with(home)) || may_be_elsewhere()
    }

    fn allowed_folders(&self) -> &[PathBuf] {
        self.allowed_folders.get_or_init(|| {
            let top = if self.top.as_os_str().is_empty() { Path::new(".") } else { &self.top };
            let own = real_path(top);
            let blobs = own.as_deref().and_then(own_blobs);
            let root = self.rules.root.as_deref().and_then(real_path);
            own.into_iter().chain(blobs).chain(root).collect()
        })
    }
}

/// Returns the error for a file that is not read because its link leads out of the folder.
pub(crate) fn leads_out(name: &str) -> Error {
    not_followed(name).hint(ADVICE)
}

fn not_followed(name: &str) -> Error {
    Error::malformed(format!("this entry of the input {LEADS_OUT}")).file(name)
}

/// Returns whether a file's bytes go into outputs unchanged, judging by its name relative to the
/// folder.
pub(crate) fn is_companion(name: &Path) -> bool {
    let is_asset = |part: Component<'_>| ASSETS.iter().any(|folder| part.as_os_str() == *folder);
    let file = name.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_index = || INDEXES.contains(&&*file) || INDEX_SUBSTRINGS.iter().any(|part| file.contains(part));
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    name.components().any(is_asset) || (COMPANIONS.contains(&ending) && !is_index())
}

/// Returns the `blobs/` folder of a repository in the `huggingface_hub` cache. The folder must be a
/// snapshot in that repository, or a sub-folder of a snapshot. In such a repository,
/// `models--ORG--NAME/snapshots/REVISION/FILE` is a link into `blobs/`.
fn own_blobs(folder: &Path) -> Option<PathBuf> {
    let snapshots =
        folder.ancestors().find(|path| path.file_name().is_some_and(|name| name == "snapshots"))?;
    snapshots.parent().filter(|path| is_repository(path)).map(|repository| repository.join("blobs"))
}

/// Returns the `blobs/` folder of the `huggingface_hub` cache repository that contains a file.
fn blobs_of(file: &Path) -> Option<&Path> {
    let blobs = file.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "blobs"))?;
    blobs.parent().is_some_and(is_repository).then_some(blobs)
}

/// Returns whether a folder is a repository in the `huggingface_hub` cache, judging by its name.
pub fn is_repository(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["models--", "datasets--", "spaces--"].iter().any(|start| name.starts_with(start))
}
