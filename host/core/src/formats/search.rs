//! The libraries in a folder of plugins.

use crate::formats::trust::Trust;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginFolder {
    pub path: PathBuf,
    /// The name of the only library to use, for a folder that also contains other libraries, such
    /// as a build folder.
    pub only: Option<String>,
    /// Whether to use the folder regardless of who may write to it. Ignoring the permissions is
    /// safe for the program's own folder, because a user who can write to that folder could also
    /// replace the program.
    pub trusted: bool,
    /// Whether the folder contains the program's own formats. Formats from other folders cannot use
    /// the IDs of built-in formats. If scores are equal, built-in formats win.
    pub built_in: bool,
}

impl PluginFolder {
    /// Returns a folder in which every library is a plugin.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), only: None, trusted: false, built_in: false }
    }

    /// Uses only the library with this name.
    #[must_use]
    pub fn only(self, library: impl Into<String>) -> Self {
        Self { only: Some(library.into()), ..self }
    }

    /// Uses the folder regardless of who may write to it.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { trusted: true, ..self }
    }

    /// Marks the folder as a folder of the program's own formats.
    #[must_use]
    pub fn built_in(self) -> Self {
        Self { built_in: true, ..self }
    }
}

impl<P: Into<PathBuf>> From<P> for PluginFolder {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

/// Returns the libraries in a folder in sorted order, or an empty list if the folder does not
/// exist.
pub(super) fn libraries(folder: &PluginFolder, trust: &Trust) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(&folder.path) {
        Ok(entries) => entries,
        Err(_) if !folder.path.is_dir() => return Ok(Vec::new()),
        Err(error) => return Err(Error::from(error).file(folder.path.display().to_string())),
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_library(path) && folder.only.as_ref().is_none_or(|only| path.ends_with(only)))
        .collect();
    paths.sort();
    if !paths.is_empty() {
        trust.check(&folder.path).map_err(|fault| {
            Error::io(format!("skipping an untrusted plugin folder: {fault}"))
                .file(folder.path.display().to_string())
        })?;
    }
    Ok(paths)
}

/// Returns whether a file is a library, judging by its name.
#[must_use]
pub fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION)
}
