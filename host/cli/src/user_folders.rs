//! Returns the user's folders, according to the XDG Base Directory Specification. If the user has
//! no home folder, each function returns `None`.

use std::path::PathBuf;

/// Returns the folder for installed plugins.
pub(crate) fn plugins() -> Option<PathBuf> {
    folder("XDG_DATA_HOME", ".local/share").map(|data| data.join("ferry/plugins"))
}

/// Returns the folder that contains the cached descriptions of plugin libraries.
pub(crate) fn plugin_cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("ferry/plugins"))
}

/// Returns the path of the list of allowed plugin libraries.
pub(crate) fn allow_list() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config").map(|config| config.join("ferry/plugins.sha256"))
}

fn folder(variable: &str, otherwise: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| home().map(|home| home.join(otherwise)))
}
