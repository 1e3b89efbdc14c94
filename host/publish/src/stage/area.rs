//! The staging area of a folder: the one place where a user's runs stage outputs for that folder, on its file
//! system. Who looks for what dead runs left looks there alone: an output's folder may hold a million names.
//!
//! Each user has an area of their own, since nobody obeys the stage of another.

use crate::disk::{each_name, stat};
use std::ffi::OsStr;
use std::fs::{DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How the name of every staging area starts.
const PREFIX: &str = ".ferry-stage-";
const OWNER_ONLY: u32 = 0o700;

/// The user's staging area in a folder.
pub fn in_folder(folder: &Path) -> PathBuf {
    folder.join(format!("{PREFIX}{}", rustix::process::geteuid().as_raw()))
}

/// The name of an empty file of the user's that a commit renames into the output's folders for a try. One that a killed run left is
/// replaced by the next try, or removed with its stage.
pub fn probe() -> String {
    format!("{PREFIX}try-{}", rustix::process::geteuid().as_raw())
}

/// Whether the name of a folder is that of a staging area.
pub(crate) fn is_area(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// The folder that a stage has been made for; none if it is in no staging area.
pub fn folder_of(stage: &Path) -> Option<&Path> {
    let area = stage.parent().filter(|area| area.file_name().is_some_and(is_area))?;
    area.parent()
}

/// Makes the user's staging area. Where something else has its name, another one, that no later run looks into.
pub(super) fn make(folder: &Path) -> io::Result<PathBuf> {
    let area = in_folder(folder);
    match DirBuilder::new().mode(OWNER_ONLY).create(&area) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map(|()| area),
    }
    // None, if the last run beside it has just removed it: the caller tries again.
    if stat(&area)?.as_ref().is_none_or(is_ours) {
        return Ok(area);
    }
    let permissions = Permissions::from_mode(OWNER_ONLY);
    let other = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(folder)?;
    Ok(other.keep())
}

/// Removes the area that a stage was in, if it was the last one.
pub(super) fn remove_of(stage: &Path) {
    if folder_of(stage).is_some() {
        // Fails, as it should, where another stage is in it.
        let _ = stage.parent().map(std::fs::remove_dir);
    }
}

/// The stages in the user's staging area of a folder.
pub(crate) fn stages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (area, mut stages) = (in_folder(folder), Vec::new());
    if stat(&area)?.as_ref().is_some_and(is_ours) {
        each_name(&area, |name| stages.push(area.join(name)))?;
    }
    Ok(stages)
}

/// Whether this is a folder of the user's. Another user's record would be obeyed with our rights: in a shared
/// folder it could name files of ours.
pub fn is_ours(folder: &Metadata) -> bool {
    folder.is_dir() && folder.uid() == rustix::process::geteuid().as_raw()
}
