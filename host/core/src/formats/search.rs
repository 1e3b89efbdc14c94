//! The libraries in a folder of plugins.

use crate::formats::trust::Trust;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginFolder {
    pub path: PathBuf,
    /// The only library name to use, if the folder has other libraries too, such as a build folder.
    pub only: Option<String>,
    /// Whether to use the folder regardless of who may write to it. For example, a user who can
    /// write to the program's own folder could replace the program anyway.
    pub trusted: bool,
    /// Whether it contains the program's own formats. Formats of other folders cannot take their
    /// IDs, and lose to them on equal scores.
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

    /// Marks the folder as that of the program's own formats.
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

/// Returns the libraries in a folder, sorted; none if the folder does not exist.
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

/// Whether a file has the name of a library.
#[must_use]
pub fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION)
}
