//! The user's folders, as the XDG base directory specification finds them. Each is `None` for a user without a home.

use std::path::PathBuf;

/// Where plugins are installed.
pub(crate) fn plugins() -> Option<PathBuf> {
    folder("XDG_DATA_HOME", ".local/share").map(|data| data.join("ferry/plugins"))
}

/// Where is kept what plugin libraries say of themselves.
pub(crate) fn plugin_cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("ferry/plugins"))
}

/// The list of plugin libraries that may be opened.
pub(crate) fn allow_list() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config").map(|config| config.join("ferry/plugins.sha256"))
}

fn folder(variable: &str, otherwise: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| home().map(|home| home.join(otherwise)))
}
