//! The folders in which `ferry` searches for plugins, and a cache of descriptions of the plugin
//! libraries.

use super::args::Arguments;
use super::{allow_list, terminal, user_folders};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use tensorferry::{PluginFolder, PluginSearch, Refusal, Registry};
use tensorferry_sdk::{Error, Result};

/// Name of the hidden command that loads libraries in a separate process.
pub(crate) const SCAN: &str = "scan-plugins";

/// Loads the plugins. Prints a note for each library that has just been quarantined, because the
/// attempt to load it may have caused a delay.
pub(crate) fn load(arguments: &Arguments) -> Result<Registry> {
    let mut search = prepared(PluginSearch::new(folders(&arguments.plugin_dir)));
    #[cfg(feature = "bundled")]
    {
        search = search.linked(ferry_formats::formats);
    }
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
        Err(error) if registry.formats().is_empty() => Err(Error::from(error)
            .context("cannot find the folder of this program and its plugins; is /proc mounted?")
            .hint("pass --plugin-dir FOLDER")),
        _ => Ok(registry),
    }
}

/// Loads one library, or all libraries in a folder. Ignores the cached results and the allow-list.
pub(crate) fn look_again(path: &Path) -> Registry {
    let search = if path.is_dir() { PluginSearch::new([path]) } else { PluginSearch::default().file(path) };
    Registry::search(&prepared(search).ignore_cache())
}

/// Loads the libraries in a folder.
pub(crate) fn look_into(folder: &Path) -> Registry {
    Registry::search(&prepared(PluginSearch::new([folder])))
}

/// Configures a search to use the cache, and to load each new library in a separate process first.
fn prepared(mut search: PluginSearch) -> PluginSearch {
    if let Ok(program) = std::env::current_exe() {
        search = search.scan_with(program, [SCAN]);
    }
    if let Some(folder) = user_folders::plugin_cache() {
        search = search.cache(folder);
    }
    search
}

/// Returns the plugin folders in search order. The folders in `--plugin-dir` are first, followed by
/// those in `FERRY_PLUGIN_PATH` and those next to the executable. The last two are the
/// installation's plugin folder, and the plugin folder in the user's data folder.
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
        // The executable may be in the output folder of `cargo build`, which also contains other
        // libraries. Therefore, only this library is loaded from that folder. The folder is
        // trusted, because users who can write to it could replace the program itself.
        let formats = format!("{DLL_PREFIX}ferry_formats{DLL_SUFFIX}");
        folders.push(own(beside.to_owned()).only(formats).trusted());
        if let Some(prefix) = beside.parent() {
            folders.push(own(prefix.join("lib/ferry/plugins")));
        }
    }
    folders.extend(user_folders::plugins().map(PluginFolder::new));
    folders
}
