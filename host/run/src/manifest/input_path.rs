//! An input found below a root: a model of a zoo, or a file of a data set. Nothing is opened for it.

use globset::GlobSet;
use std::collections::BTreeSet;
use tensorferry::engine::read::folder::{EntryKind, FolderEntry, InputFolder};
use tensorferry_sdk::Result;

/// How deep folders are entered.
pub(super) const DEEPEST: usize = 64;

/// A model of a zoo, or a file of a data set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InputPath {
    /// Below the root, `/` between the parts.
    pub(super) path: String,
    /// The same without the ending that names the format: `{path}`.
    pub(super) bare: String,
    pub(super) is_folder: bool,
    pub(super) is_root: bool,
    /// Of a folder, the files in it that are weights.
    pub(super) members: Vec<String>,
}

impl InputPath {
    /// A file, and its path without the ending. A name that would be another folder's without it keeps it:
    /// `..-00001-of-00001.safetensors` is no way out of an output's folder.
    pub(super) fn file(path: String, bare: String) -> Self {
        let leads_elsewhere = matches!(bare.rsplit('/').next(), None | Some("" | "." | ".."));
        let bare = if leads_elsewhere { path.clone() } else { bare };
        Self { path, bare, is_folder: false, is_root: false, members: Vec::new() }
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

    /// Whether a glob matches its path, or the path of one of its weights.
    pub(super) fn matches(&self, glob: &GlobSet) -> bool {
        glob.is_match(&self.path) || self.members.iter().any(|member| glob.is_match(member))
    }
}

/// The path of a name in a folder below the root, which is the empty path.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The names in a folder below a root: its files, links to files too, and its folders.
///
/// # Errors
/// I/o.
pub(super) fn read_folder(root: &InputFolder, folder: &str) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for FolderEntry { name, kind, is_link, .. } in root.below(folder).entries("", "", u64::MAX)? {
        match kind {
            EntryKind::Folder if !is_link => drop(folders.insert(name)),
            EntryKind::File => drop(files.insert(name)),
            _ => {}
        }
    }
    Ok((files, folders))
}

/// The parts of a shard's name, `STEM-00003-of-00040REST`.
pub(super) struct ShardName<'n> {
    pub(super) stem: &'n str,
    pub(super) number: &'n str,
    pub(super) count: &'n str,
    pub(super) rest: &'n str,
}

impl<'n> ShardName<'n> {
    pub(super) fn parse(name: &'n str) -> Option<Self> {
        let (before, after) = name.split_once("-of-")?;
        let (stem, number) = before.rsplit_once('-')?;
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (count, rest) = after.split_at(digits(after));
        let is_shard = number.len() >= 5 && digits(number) == number.len() && count.len() >= 5;
        is_shard.then_some(Self { stem, number, count, rest })
    }
}
