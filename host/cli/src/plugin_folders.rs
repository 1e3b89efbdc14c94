//! Where `ferry` looks for plugins, and what it keeps of them.

use super::args::Arguments;
use super::{allow_list, terminal, user_folders};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use tensorferry::{PluginFolder, PluginSearch, Refusal, Registry};
use tensorferry_sdk::{Error, Result};

/// The hidden command by which libraries are opened in a process of their own.
pub(crate) const SCAN: &str = "scan-plugins";

/// The plugins that are used. What was quarantined just now is told, since it took its time.
pub(crate) fn load(arguments: &Arguments) -> Result<Registry> {
    let mut search = prepared(PluginSearch::new(folders(&arguments.plugin_dir)));
    if let Some(list) = allow_list::read()? {
        search = search.allow_only(list.into_keys());
    }
    let registry = Registry::search(&search.allow_shadow(&arguments.allow_shadow));
    for library in registry.libraries().iter().filter(|library| library.is_new) {
        if let Err(why @ Refusal::Quarantined(_)) = &library.outcome {
            terminal::message("note", &format!("plugin {}: {why}", terminal::shown(&library.path)));
        }
    }
    match std::env::current_exe() {
        Err(error) if registry.formats().is_empty() => Err(Error::from(error).context(
            "the program's own folder, where its plugins are, is not known (is /proc mounted?): pass --plugin-dir",
        )),
        _ => Ok(registry),
    }
}

/// One library, or all of a folder, looked at anew; the list of libraries that may be opened does not count here.
pub(crate) fn look_again(path: &Path) -> Registry {
    let search = if path.is_dir() { PluginSearch::new([path]) } else { PluginSearch::default().file(path) };
    Registry::search(&prepared(search).look_again())
}

/// What is in a folder of plugins.
pub(crate) fn look_into(folder: &Path) -> Registry {
    Registry::search(&prepared(PluginSearch::new([folder])))
}

/// With a cache, and a process of its own for each library that is opened for the first time.
fn prepared(mut search: PluginSearch) -> PluginSearch {
    if let Ok(program) = std::env::current_exe() {
        search = search.scan_with(program, [SCAN]);
    }
    if let Some(folder) = user_folders::plugin_cache() {
        search = search.cache(folder);
    }
    search
}

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
        let own = |path: PathBuf| PluginFolder::new(path).built_in();
        folders.push(own(beside.join("plugins")));
        // As `cargo build` leaves it, among libraries of other kinds. Whoever writes there can exchange the program.
        let formats = format!("{DLL_PREFIX}ferry_formats{DLL_SUFFIX}");
        folders.push(own(beside.to_owned()).only(formats).trusted());
        if let Some(prefix) = beside.parent() {
            folders.push(own(prefix.join("lib/ferry/plugins")));
        }
    }
    folders.extend(user_folders::plugins().map(PluginFolder::new));
    folders
}
