//! Helpers for listing and copying the files in a folder.

use std::path::{Path, PathBuf};

/// Prefix of the name of every staging area. A staging area is the folder next to outputs that
/// contains the stages of a user's runs.
pub const STAGING: &str = ".ferry-stage-";

/// Returns the name of the staging area of the current user.
pub fn staging_area() -> String {
    format!("{STAGING}{}", rustix::process::geteuid().as_raw())
}

/// Returns the relative paths of all files in a folder and its sub-folders, sorted.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).expect("the path is in the folder").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Copies all files in a folder and its sub-folders.
pub fn copy_below(from: &Path, to: &Path) {
    for file in files_below(from) {
        let to = to.join(&file);
        std::fs::create_dir_all(to.parent().expect("the path is in the folder")).unwrap();
        std::fs::copy(from.join(&file), to).unwrap();
    }
}

/// Returns the paths of [`files_below`] as strings.
pub fn paths_below(folder: &Path) -> Vec<String> {
    files_below(folder).iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// Returns the names of all entries of a folder, sorted, including staging folders.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
