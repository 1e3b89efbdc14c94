//! Decides which files of a folder are weights. A file is weights if its name matches a name that a
//! tensor format declares.

use crate::formats::data_names::bare_names;
use crate::formats::registry::{Formats, holds_records};
use crate::read::folder::{EntryKind, FolderEntry};
use crate::read::key_words::{is_training_folder, names_training_state};
use crate::read::own_files::RECEIPT;
use crate::read::source::FileSource;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use tensorferry_sdk::{Description, Error, Result};

/// Maximum depth of sub-folders to search for weights.
pub const MAX_FOLDERS: usize = 32;

/// The file names that tensor formats declare.
pub struct WeightNames(Vec<FormatNames>);

/// Files that contain the name of one training step, such as the latest one.
const POINTERS: [&str; 3] = ["latest", "latest_universal", "latest_checkpointed_iteration.txt"];

/// The file names that one format declares.
struct FormatNames {
    id: String,
    is_built_in: bool,
    names: GlobSet,
}

impl WeightNames {
    pub fn of(registry: &Formats) -> Result<Self> {
        // Files of records next to a model are not weights.
        let formats = registry.formats().iter().filter(|format| !holds_records(&format.description));
        let known = formats.map(|format| {
            let Description { id, suffixes, members, .. } = &*format.description;
            let endings: Vec<String> = suffixes.iter().map(|suffix| format!("*{suffix}")).collect();
            let names = set_of(endings.iter().chain(members))?;
            Ok(FormatNames { id: id.clone(), is_built_in: format.is_built_in(), names })
        });
        known.collect::<Result<_>>().map(Self)
    }

    /// Returns whether some format declares this file name.
    pub fn is_match(&self, file: &str) -> bool {
        self.0.iter().any(|known| known.names.is_match(file))
    }

    /// Returns whether a file next to a model's weights is also a weights file. Training state does
    /// not count as weights (`optimizer.pt`, `training_args.bin`, the folder `optimizer_0`,
    /// DeepSpeed's `latest`).
    pub fn is_match_beside(&self, name: &str) -> bool {
        let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
        let is_training = || names_training_state(file) || folders.split('/').any(is_training_folder);
        let is_weights = self.is_match(file) || bare_names(file).any(|name| self.is_match(name));
        is_weights && !POINTERS.contains(&file) && !is_training()
    }

    /// Returns whether a folder contains only receipts and files whose names some format declares.
    pub fn are_alone_in(&self, folder: &FileSource) -> bool {
        let is_one = |entry: &FolderEntry| {
            entry.kind == EntryKind::File && (self.is_match(&entry.name) || entry.name.ends_with(RECEIPT))
        };
        folder.entries("").is_ok_and(|entries| entries.iter().all(is_one))
    }

    /// Returns whether this format declares the file name.
    pub fn is_of(&self, file: &str, format: &Description) -> bool {
        self.0.iter().any(|known| known.id == format.id && known.names.is_match(file))
    }

    /// Returns the built-in formats that declare the file name.
    pub fn built_in<'a>(&'a self, file: &str) -> impl Iterator<Item = &'a str> {
        let known = self.0.iter().filter(move |known| known.is_built_in && known.names.is_match(file));
        known.map(|known| &*known.id)
    }
}

fn set_of<'p>(patterns: impl IntoIterator<Item = &'p String>) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    // An invalid pattern from a plugin matches nothing.
    for glob in patterns
        .into_iter()
        .filter_map(|pattern| GlobBuilder::new(pattern).case_insensitive(true).build().ok())
    {
        set.add(glob);
    }
    set.build().map_err(|e| Error::plugin(format!("cannot compile the formats' name patterns: {e}")))
}

/// Compiles a list of name patterns into one set.
pub fn globs(patterns: &[String]) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(|e| Error::usage(e.to_string()))?);
    }
    set.build().map_err(|e| Error::usage(e.to_string()))
}
