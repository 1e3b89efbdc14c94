//! The staging area of a folder is the only location in which a user's runs stage outputs for that
//! folder. The area is on the same file system as the folder. A search for the stages of
//! interrupted runs lists only the area, because the output's folder may contain a million names.
//!
//! Each user has a separate area, because a run does not finish the stages of other users.

use crate::disk::stat;
use crate::platform::each_name;
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

/// Returns the name of the empty file that the user's commits rename into the output's folders, to
/// test whether the rename works. If a run is killed, the file remains until the next test replaces
/// it or the run's stage is removed.
pub fn probe() -> String {
    format!("{PREFIX}try-{}", rustix::process::geteuid().as_raw())
}

/// Returns whether a folder's name is the name of a staging area.
pub(crate) fn is_area(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Returns the folder for which a stage was created, or `None` if the stage is not in a staging
/// area.
pub fn folder_of(stage: &Path) -> Option<&Path> {
    let area = stage.parent().filter(|area| area.file_name().is_some_and(is_area))?;
    area.parent()
}

/// Creates the user's staging area. If something else already has the name, creates an area with a
/// name that later runs do not search.
pub(super) fn make(folder: &Path) -> io::Result<PathBuf> {
    let area = in_folder(folder);
    match DirBuilder::new().mode(OWNER_ONLY).create(&area) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map(|()| area),
    }
    // The area may be missing because another run has just removed it. In that case, the caller
    // tries again.
    if stat(&area)?.as_ref().is_none_or(is_ours) {
        return Ok(area);
    }
    let permissions = Permissions::from_mode(OWNER_ONLY);
    let other = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(folder)?;
    Ok(other.keep())
}

/// Removes the staging area of a stage if it contains no other stage.
pub(super) fn remove_of(stage: &Path) {
    if folder_of(stage).is_some() {
        // This call fails, as intended, if the area contains a different stage.
        let _ = stage.parent().map(std::fs::remove_dir);
    }
}

/// Returns the stages in the user's staging area for a folder.
pub(crate) fn stages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (area, mut stages) = (in_folder(folder), Vec::new());
    if stat(&area)?.as_ref().is_some_and(is_ours) {
        each_name(&area, |name| stages.push(area.join(name)))?;
    }
    Ok(stages)
}

/// Returns whether the folder belongs to the user. ferry must not follow a different user's record,
/// because ferry would act with the current user's permissions. In a shared folder, the record
/// could name the current user's files.
pub fn is_ours(folder: &Metadata) -> bool {
    folder.is_dir() && folder.uid() == rustix::process::geteuid().as_raw()
}
