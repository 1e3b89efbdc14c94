//! Where plugins are looked for. Opening a library runs its code, so that a folder which other
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

/// The folders in the order of cli.md: the user's, the environment's, beside the executable, the
/// installation's, the user's data folder.
#[must_use]
pub fn folders(given: &[PathBuf]) -> Vec<PluginFolder> {
    let mut folders: Vec<PluginFolder> = given.iter().map(PluginFolder::new).collect();
    if let Some(paths) = std::env::var_os("FERRY_PLUGIN_PATH") {
        folders.extend(
            std::env::split_paths(&paths).filter(|p| !p.as_os_str().is_empty()).map(PluginFolder::new),
        );
    }
    let beside = std::env::current_exe().ok().and_then(|exe| exe.canonicalize().ok());
    if let Some(beside) = beside.as_deref().and_then(Path::parent) {
        folders.push(PluginFolder::new(beside.join("plugins")));
        folders.push(PluginFolder { path: beside.to_owned(), only_named: true });
        if let Some(prefix) = beside.parent() {
            folders.push(PluginFolder::new(prefix.join("lib/ferry/plugins")));
        }
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    folders.extend(data.or(home).map(|data| PluginFolder::new(data.join("ferry/plugins"))));
    folders
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
