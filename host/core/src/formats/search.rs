//! The libraries in a folder of plugins.

use crate::formats::trust::Trust;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// A folder of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginFolder {
    /// Where it is.
    pub path: PathBuf,
    /// The name of the only library that is used, if others there may be of another kind: a build's folder has many.
    pub only: Option<String>,
    /// Whether it is used whoever may write to it: one beside the program, say, since whoever writes there can
    /// exchange the program.
    pub trusted: bool,
    /// Whether it holds the program's own formats: those of other folders do not take their ids, and lose
    /// against them where both are equally sure of an input.
    pub built_in: bool,
}

impl PluginFolder {
    /// A folder in which every library is taken for a plugin.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), only: None, trusted: false, built_in: false }
    }

    /// The same folder, of which only the library with this name is used.
    #[must_use]
    pub fn only(self, library: impl Into<String>) -> Self {
        Self { only: Some(library.into()), ..self }
    }

    /// The same folder, used whoever may write to it.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { trusted: true, ..self }
    }

    /// The same folder, as that of the program's own formats.
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

/// The libraries in a folder, sorted; none if there is no such folder.
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
            Error::io(format!("a plugin folder is passed over: {fault}"))
                .file(folder.path.display().to_string())
        })?;
    }
    Ok(paths)
}

/// Whether a file's name is that of a library.
#[must_use]
pub fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION)
}
