//! `ferry plugin install` and `ferry plugin remove`: manage the libraries in the user's plugin
//! folder.

use super::found;
use crate::{allow_list, plugin_folders, terminal, user_folders};
use std::fs::{DirBuilder, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tensorferry::formats::{is_library, sha256, sum_file};
use tensorferry_sdk::{Error, Result};

/// Copies a library to the plugin folder after checking that it is usable.
pub(super) fn install(library: &Path, force: bool) -> Result<()> {
    let failed = |path: &Path, e: std::io::Error| Error::from(e).file(path.display().to_string());
    if library.is_dir() || !is_library(library) {
        let hint = format!("pass a file whose name ends in .{}", std::env::consts::DLL_EXTENSION);
        return Err(Error::usage("not a library").file(library.display().to_string()).hint(hint));
    }
    let registry = plugin_folders::look_again(library);
    found::all_usable(&registry, library)?;
    let Some((found, identity)) =
        registry.libraries().first().and_then(|f| Some((f, f.outcome.as_ref().ok()?)))
    else {
        return Err(Error::io("no library found").file(library.display().to_string()));
    };
    let folder = own_folder()?;
    let target = folder.join(library.file_name().unwrap_or_default());
    if target.exists() && !force {
        return Err(Error::usage("a plugin with this file name is already installed")
            .file(target.display().to_string())
            .hint("pass --force to replace it"));
    }
    // ferry ignores a plugin folder that other users can write to. This mode denies them write
    // access with any umask.
    DirBuilder::new().recursive(true).mode(0o755).create(&folder).map_err(|e| failed(&folder, e))?;
    let mut file =
        tempfile::Builder::new().prefix(".new-").tempfile_in(&folder).map_err(|e| failed(&folder, e))?;
    let bytes = std::fs::read(library).map_err(|e| failed(library, e))?;
    file.write_all(&bytes).map_err(|e| failed(file.path(), e))?;
    let sum = sha256(file.path()).map_err(|e| failed(file.path(), e))?;
    if found.sha256.as_ref() != Some(&sum) {
        return Err(Error::transient("the library changed while it was being read")
            .file(library.display().to_string()));
    }
    let public = Permissions::from_mode(0o755);
    file.as_file().set_permissions(public).map_err(|e| failed(file.path(), e))?;
    file.as_file().sync_all().map_err(|e| failed(file.path(), e))?;
    file.persist(&target).map_err(|e| failed(&target, e.error))?;
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    std::fs::write(sum_file(&target), format!("{sum}  {name}\n")).map_err(|e| failed(&target, e))?;
    if let Some(mut list) = allow_list::read()? {
        list.insert(sum.clone(), target.display().to_string());
        allow_list::write(&list)?;
    }
    terminal::print(&format!(
        "installed {} {}  {}\n  formats {}; SHA-256 {sum}\n",
        terminal::printable(&identity.name),
        terminal::printable(&identity.version),
        terminal::shown(&target),
        found::formats_of(&registry, Some(0)).join(", "),
    ))
}

/// Removes the installed library that `name` identifies.
pub(super) fn remove(name: &str) -> Result<()> {
    let folder = own_folder()?;
    let registry = plugin_folders::look_into(&folder);
    let is_meant = |index: usize, path: &Path| {
        let identity = registry.libraries()[index].outcome.as_ref().ok();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        file == name
            || stem == name
            || stem.strip_prefix("lib") == Some(name)
            || identity.is_some_and(|identity| identity.name == name)
            || found::formats_of(&registry, Some(index)).contains(&name)
    };
    let libraries = registry.libraries().iter().map(|library| library.path.as_path()).enumerate();
    // For a symbolic link in the plugin folder, the registry contains the path of the link's
    // target. ferry must not remove a target outside the folder.
    let own = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let libraries: Vec<(usize, &Path)> = libraries.filter(|(_, path)| path.parent() == Some(&own)).collect();
    let meant: Vec<&Path> =
        libraries.iter().filter(|(index, path)| is_meant(*index, path)).map(|(_, path)| *path).collect();
    let [path] = meant[..] else {
        let file = |path: &&Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (problem, files): (_, Vec<String>) = if meant.is_empty() {
            (
                "no such plugin is installed in your plugin folder",
                libraries.iter().map(|(_, path)| file(path)).collect(),
            )
        } else {
            ("several plugins have this name", meant.iter().map(file).collect())
        };
        let error = Error::usage(format!("{name:?}: {problem}")).file(folder.display().to_string());
        return Err(if files.is_empty() {
            error
        } else {
            error.hint(format!("pass the name of a file: {}", files.join(", ")))
        });
    };
    let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
    std::fs::remove_file(path).map_err(failed)?;
    match std::fs::remove_file(sum_file(path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    terminal::print(&format!("removed {}\n", terminal::shown(path)))
}

fn own_folder() -> Result<PathBuf> {
    user_folders::plugins()
        .ok_or_else(|| Error::io("cannot determine the plugin folder, since HOME is not set"))
}
