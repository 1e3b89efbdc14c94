//! The libraries in a folder of plugins. Opening a library runs its code, so that a folder which other
//! users may write to is passed over.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// A folder of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFolder {
    /// Where it is.
    pub path: PathBuf,
    /// Whether only names that start with `libferry_` are plugins: the build's own folder also holds
    /// libraries of another kind.
    pub only_named: bool,
}

impl PluginFolder {
    /// A folder in which every library is taken for a plugin.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), only_named: false }
    }
}

impl<P: Into<PathBuf>> From<P> for PluginFolder {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

/// The libraries in a folder, sorted; none if there is no such folder.
pub(super) fn libraries(folder: &PluginFolder) -> Result<Vec<PathBuf>> {
    let Ok(metadata) = std::fs::metadata(&folder.path) else { return Ok(Vec::new()) };
    let entries = std::fs::read_dir(&folder.path);
    let entries = entries.map_err(|e| Error::from(e).file(folder.path.display().to_string()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            !folder.only_named || name.starts_with("libferry_")
        })
        .collect();
    paths.sort();
    if !paths.is_empty() {
        check_trusted(&folder.path, &metadata)?;
    }
    Ok(paths)
}

/// Group and others must not be able to put a library there; root and the user may own it.
fn check_trusted(path: &Path, metadata: &std::fs::Metadata) -> Result<()> {
    let owner = metadata.uid();
    let me = rustix::process::geteuid().as_raw();
    let writable = metadata.mode() & 0o022 != 0;
    if !writable && (owner == me || owner == 0) {
        return Ok(());
    }
    Err(Error::io(
        "a plugin folder that other users may write to is passed over: chmod go-w, or copy the plugins",
    )
    .file(path.display().to_string()))
}
