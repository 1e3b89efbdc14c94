//! A folder is replaced by exchanging it, in one step, for the staged one.
//!
//! Before that, everything in it that the output does not bring itself is [carried](carry) into the staged
//! folder: files by hard link, so that they are there in the moment of the exchange and cost nothing;
//! folders made anew with the same owner and mode. After it, the old folder is [drained](drain): what came
//! or changed in between is moved over, and what the new one has is removed.
//!
//! A reader that opens several files by path while this happens may get some of the old folder and some of
//! the new one: only who opens the folder first and the files relative to it is safe from that.

use crate::context::fault;
use crate::publish::disk::{
    At, Disk, adopt, exists, failed, in_the_way, open_to_owner, remove_if_there, stat, sync,
};
use crate::publish::stage::area::is_area;
use std::collections::HashSet;
use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::Result;

/// What a carry came to.
#[derive(Debug)]
pub(super) enum Carried {
    /// The new folder has everything that the old one has.
    All,
    /// Not possible here: no links, a mounted sub-folder, another owner's files. The reason, in words.
    Cannot(String),
}

/// Gives `new` all of `old` that it does not have, but what is `stale`.
///
/// # Errors
/// Usage, where the one has a folder and the other a file of the same name.
pub(super) fn carry(old: &Path, new: &Path, stale: &HashSet<&Path>, disk: Disk) -> Result<Carried> {
    let mut conflict = None;
    match carry_tree(old, new, stale, disk, &mut conflict) {
        Ok(()) => Ok(conflict.map_or(Ok(Carried::All), Err)?),
        Err(error) => Ok(Carried::Cannot(error.to_string())),
    }
}

fn carry_tree(
    old: &Path,
    new: &Path,
    stale: &HashSet<&Path>,
    disk: Disk,
    conflict: &mut Option<tensorferry_sdk::Error>,
) -> io::Result<()> {
    let device = fs::symlink_metadata(old)?.dev();
    let mut folders = vec![PathBuf::new()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        for (entry, meta) in entries(&old.join(&folder))? {
            let path = folder.join(entry.file_name());
            let (from, to) = (old.join(&path), new.join(&path));
            let there = stat(&to)?;
            match (meta.is_dir(), there.map(|there| there.is_dir())) {
                // Other runs': they find their stages under the same names again after the drain.
                (true, None) if is_area(&entry.file_name()) => {}
                (true, _) if meta.dev() != device => return Err(ErrorKind::CrossesDevices.into()),
                (true, None) => {
                    fs::create_dir(&to)?;
                    folders.push(path);
                }
                (true, Some(true)) => folders.push(path),
                (true, Some(false)) => *conflict = Some(in_the_way(&from, "a folder", "a file")),
                (false, Some(true)) => *conflict = Some(in_the_way(&from, "not a folder", "one")),
                (false, Some(false)) => {}
                (false, None) if stale.contains(path.as_path()) => {}
                (false, None) => match disk.link(&from, &to) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    linked => linked?,
                },
            }
        }
    }
    // Last, and innermost first: a mode may forbid to make anything in the folder.
    for folder in folders.iter().rev() {
        adopt(&new.join(folder), &fs::symlink_metadata(old.join(folder))?)?;
    }
    Ok(())
}

/// Empties and removes `old`, the folder that `new` has taken the place of. Can be done again at any point.
///
/// What `new` does not have is moved there. What it has is removed: the same file under a second name, or one
/// that a file of the `output` has replaced. If it is neither, it was changed between carry and exchange,
/// and the younger one stays.
pub(super) fn drain(
    old: &Path,
    new: &Path,
    output: &HashSet<&Path>,
    disk: Disk,
    durable: bool,
) -> Result<()> {
    let failed = || failed("carry over what the old folder holds", new);
    let mut folders = vec![PathBuf::new()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        open_to_owner(&old.join(&folder)).map_err(failed())?;
        for (entry, meta) in entries(&old.join(&folder)).map_err(failed())? {
            let path = folder.join(entry.file_name());
            let (from, to) = (old.join(&path), new.join(&path));
            match (meta.is_dir(), stat(&to).map_err(failed())?) {
                (false, _) if output.contains(path.as_path()) => fs::remove_file(&from).map_err(failed())?,
                (true, None) => fs::rename(&from, &to).map_err(failed())?,
                (false, None) => match disk.rename_new(At::from(&*from), At::from(&*to)) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(&to)),
                    moved => moved.map_err(failed())?,
                },
                (true, Some(there)) if there.is_dir() => {
                    folders.push(path);
                    continue;
                }
                (false, Some(there)) if !there.is_dir() => {
                    if is_younger(&meta, &there) {
                        fs::rename(&from, &to).map_err(failed())?;
                    }
                    remove_if_there(&from).map_err(failed())?;
                    continue;
                }
                (is_folder, Some(_)) => {
                    let found = if is_folder { "a folder" } else { "not a folder" };
                    return Err(in_the_way(&from, found, "the other"));
                }
            }
            if durable {
                to.parent().map_or(Ok(()), sync).map_err(failed())?;
            }
        }
    }
    for folder in folders.iter().rev() {
        fs::remove_dir(old.join(folder)).map_err(failed())?;
    }
    fault::reach("old-removed")
}

/// Whether `meta` is another file than `there`, changed later.
fn is_younger(meta: &Metadata, there: &Metadata) -> bool {
    meta.ino() != there.ino() && (meta.mtime(), meta.mtime_nsec()) > (there.mtime(), there.mtime_nsec())
}

/// What a folder holds, with metadata; what vanishes meanwhile is left out.
fn entries(folder: &Path) -> io::Result<Vec<(DirEntry, Metadata)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            meta => found.push((entry, meta?)),
        }
    }
    Ok(found)
}
