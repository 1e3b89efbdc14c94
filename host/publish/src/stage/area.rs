//! The staging area of a folder: the only place where a user's runs stage outputs for that folder,
//! on its file system. A search for the leftovers of interrupted runs reads only the area, because
//! an output's folder may hold a million names.
//!
//! Each user has a separate area, since a run does not follow the stage of another user.

use crate::disk::{each_name, stat};
use std::ffi::OsStr;
use std::fs::{DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Prefix of the name of every staging area.
const PREFIX: &str = ".ferry-stage-";
const OWNER_ONLY: u32 = 0o700;

/// Returns the user's staging area in a folder.
pub fn in_folder(folder: &Path) -> PathBuf {
    folder.join(format!("{PREFIX}{}", rustix::process::geteuid().as_raw()))
}

/// Name of the user's empty file that a commit renames into the output's folders to test them. If a
/// run is killed, the next test replaces the file, or it is removed with its stage.
pub fn probe() -> String {
    format!("{PREFIX}try-{}", rustix::process::geteuid().as_raw())
}

/// Returns whether the name of a folder is that of a staging area.
pub(crate) fn is_area(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Returns the folder that a stage is for, or `None` if the stage is not in a staging area.
pub fn folder_of(stage: &Path) -> Option<&Path> {
    let area = stage.parent().filter(|area| area.file_name().is_some_and(is_area))?;
    area.parent()
}

/// Creates the user's staging area. If something else has its name, creates one that later runs do
/// not search.
pub(super) fn make(folder: &Path) -> io::Result<PathBuf> {
    let area = in_folder(folder);
    match DirBuilder::new().mode(OWNER_ONLY).create(&area) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map(|()| area),
    }
    // `None` if another run has just removed it: the caller tries again.
    if stat(&area)?.as_ref().is_none_or(is_ours) {
        return Ok(area);
    }
    let permissions = Permissions::from_mode(OWNER_ONLY);
    let other = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(folder)?;
    Ok(other.keep())
}

/// Removes the area of a stage if no other stage is in it.
pub(super) fn remove_of(stage: &Path) {
    if folder_of(stage).is_some() {
        // Fails, as intended, if another stage is in it.
        let _ = stage.parent().map(std::fs::remove_dir);
    }
}

/// Returns the stages in the user's staging area of a folder.
pub(crate) fn stages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (area, mut stages) = (in_folder(folder), Vec::new());
    if stat(&area)?.as_ref().is_some_and(is_ours) {
        each_name(&area, |name| stages.push(area.join(name)))?;
    }
    Ok(stages)
}

/// Returns whether the folder belongs to the user. Following another user's record would use our
/// permissions: in a shared folder it could name our files.
pub fn is_ours(folder: &Metadata) -> bool {
    folder.is_dir() && folder.uid() == rustix::process::geteuid().as_raw()
}
