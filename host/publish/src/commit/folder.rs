//! Replaces a folder by exchanging it with the staged folder in one step.
//!
//! Before the exchange, everything in the old folder that the output does not replace is
//! [carried](carry) into the staged folder. Files are hard-linked, so that their bytes are not
//! copied and the files are available at the moment of the exchange. Folders are created again with
//! the same owner and mode. After the exchange, the old folder is [drained](drain). Files that were
//! added or changed after the carry are moved to the new folder, and the remaining entries are
//! removed.
//!
//! A reader that opens several files by path during the exchange may read some files from the old
//! folder and some from the new one. A reader that opens the folder first, and then opens the files
//! relative to the folder, avoids this problem.

use crate::beneath::OpenFolder;
use crate::disk::{At, Disk, adopt, exists, failed, in_the_way, listed, metadata, open_to_owner};
use crate::stage::area::is_area;
use rustix::fs::{AtFlags, Dir, Mode, mkdirat, unlinkat};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tensorferry_core::context::fault;
use tensorferry_sdk::Result;

/// The result of carrying the entries of the old folder into the new folder.
#[derive(Debug)]
pub(super) enum CarryResult {
    /// The new folder contains everything that the old folder contains.
    All,
    /// Files cannot be carried over, because the file system has no hard links, a sub-folder is a
    /// mount point, or some files belong to a different owner. Contains the reason.
    Cannot(String),
}

/// Creates every entry of `old` that is missing in `new`, except for `stale` entries. Files are
/// created as hard links.
pub(super) fn carry(old: &Path, new: &Path, stale: &HashSet<&Path>, disk: Disk) -> Result<CarryResult> {
    let mut conflict = None;
    let carried = OpenFolder::open(old).and_then(|old| Ok((old, OpenFolder::open(new)?)));
    match carried.and_then(|(old, new)| carry_tree(&old, &new, stale, disk, &mut conflict)) {
        Ok(()) => Ok(conflict.map_or(Ok(CarryResult::All), Err)?),
        Err(error) => Ok(CarryResult::Cannot(error.to_string())),
    }
}

fn carry_tree(
    old: &OpenFolder,
    new: &OpenFolder,
    stale: &HashSet<&Path>,
    disk: Disk,
    conflict: &mut Option<tensorferry_sdk::Error>,
) -> io::Result<()> {
    let device = old.metadata()?.dev();
    let mut folders = vec![PathBuf::new()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let (from, to) = (old.below(&folder)?, new.below(&folder)?);
        for (name, meta) in entries(&from)? {
            let (path, [from, to]) = (folder.join(&name), [&from, &to].map(|folder| at(folder, &name)));
            let there = to.stat()?;
            match (meta.is_dir(), there.map(|there| there.is_dir())) {
                // Staging areas are not carried over. After the drain, other runs can still find
                // their stages under the same names.
                (true, None) if is_area(&name) => {}
                (true, _) if meta.dev() != device => return Err(ErrorKind::CrossesDevices.into()),
                (true, None) => {
                    mkdirat(to.folder, to.name, Mode::from_raw_mode(0o777))?;
                    folders.push(path);
                }
                (true, Some(true)) => folders.push(path),
                (true, Some(false)) => {
                    *conflict = Some(in_the_way(&old.path.join(path), "a folder", "a file"));
                }
                (false, Some(true)) => {
                    *conflict = Some(in_the_way(&old.path.join(path), "not a folder", "one"));
                }
                (false, Some(false)) => {}
                (false, None) if stale.contains(path.as_path()) => {}
                (false, None) => match disk.link(from, to) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    linked => linked?,
                },
            }
        }
    }
    // Modes are set last, innermost folders first, because a mode may forbid creating entries in
    // the folder.
    for folder in folders.iter().rev() {
        adopt(&new.below(folder)?, &metadata(&old.below(folder)?)?)?;
    }
    Ok(())
}

/// Empties and removes `old`, which `new` has replaced. If this function is interrupted, it can be
/// called again.
///
/// Entries that are missing in `new` are moved there. An entry that is also in `new` is removed if
/// both are the same file, or if a file of the `output` replaces the entry. Otherwise the entry was
/// changed after [`carry`] and before the exchange, and the newer of the two files is kept.
pub(super) fn drain(
    old: &OpenFolder,
    new: &OpenFolder,
    output: &HashSet<&Path>,
    disk: Disk,
    durable: bool,
) -> Result<()> {
    let failed = || failed("move the contents of the old folder", &new.path);
    let mut folders = vec![PathBuf::new()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let (from, into) = (old.below(&folder).map_err(failed())?, new.below(&folder).map_err(failed())?);
        open_to_owner(&from).map_err(failed())?;
        for (name, meta) in entries(&from).map_err(failed())? {
            let (path, [from, to]) = (folder.join(&name), [&from, &into].map(|folder| at(folder, &name)));
            match (meta.is_dir(), to.stat().map_err(failed())?) {
                (false, _) if output.contains(path.as_path()) => from.remove().map_err(failed())?,
                (true, None) => Disk::rename(from, to).map_err(failed())?,
                (false, None) => match disk.rename_new(from, to) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                        return Err(exists(&new.path.join(path)));
                    }
                    moved => moved.map_err(failed())?,
                },
                (true, Some(there)) if there.is_dir() => {
                    folders.push(path);
                    continue;
                }
                (false, Some(there)) if !there.is_dir() => {
                    if is_younger(&meta, &there) {
                        Disk::rename(from, to).map_err(failed())?;
                    }
                    from.remove_if_there().map_err(failed())?;
                    continue;
                }
                (is_folder, Some(_)) => {
                    let found = if is_folder { "a folder" } else { "not a folder" };
                    return Err(in_the_way(&old.path.join(path), found, "the other"));
                }
            }
            if durable {
                listed(&into).and_then(|folder| folder.sync_all()).map_err(failed())?;
            }
        }
    }
    for folder in folders.iter().rev() {
        remove_folder(old, folder).map_err(failed())?;
    }
    fault::reach("old-removed")
}

/// Removes an empty folder below `top`, or `top` itself if the path is empty.
fn remove_folder(top: &OpenFolder, folder: &Path) -> io::Result<()> {
    match (folder.parent(), folder.file_name()) {
        (Some(outer), Some(name)) => Ok(unlinkat(top.below(outer)?, name, AtFlags::REMOVEDIR)?),
        // If a link has replaced the folder, `remove_dir` does not remove the link.
        _ => std::fs::remove_dir(&top.path),
    }
}

fn at<'a>(folder: &'a OwnedFd, name: &'a OsStr) -> At<'a> {
    At { folder: folder.as_fd(), name: Path::new(name) }
}

/// Returns whether `meta` describes a different file than `there`, and one that was changed later.
fn is_younger(meta: &Metadata, there: &Metadata) -> bool {
    meta.ino() != there.ino() && (meta.mtime(), meta.mtime_nsec()) > (there.mtime(), there.mtime_nsec())
}

/// Returns a folder's entries with their metadata. Entries that disappear during the call are
/// omitted.
fn entries(folder: &OwnedFd) -> io::Result<Vec<(OsString, Metadata)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(listed(folder)?)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            found.extend(at(folder, name).stat()?.map(|meta| (name.to_owned(), meta)));
        }
    }
    Ok(found)
}
