//! Where `ferry` looks for plugins.

use std::path::{Path, PathBuf};
use tensorferry::engine::formats::search::PluginFolder;

/// The folders of plugins in the order in which they are searched: the user's, the environment's, beside the executable, the
/// installation's, the user's data folder.
pub(crate) fn folders(given: &[PathBuf]) -> Vec<PluginFolder> {
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
