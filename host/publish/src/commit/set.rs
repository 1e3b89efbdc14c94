//! Commits a set file by file: data files first, indexes last.
//!
//! If data files of an older set have the same names as new ones, the old index is removed before
//! the first data file is replaced. A reader that opens the set by its index therefore finds the
//! old set, no set, or the new set. All steps are in the commit record, and each step can be
//! repeated: recovery also calls [`finish`].

use super::record::{Set, SetFile, StaleFile};
use crate::beneath::Place;
use crate::disk::{Disk, exists, failed, in_the_way, stat, sync};
use crate::stage::{FileKind, NEW, StagedFile, area};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tensorferry_core::context::fault;
use tensorferry_sdk::{Error, Result};

/// The source and target folders of a set's files.
#[derive(Debug, Clone)]
pub(super) struct Move<'a> {
    /// The folder of the stage.
    pub(super) root: &'a Path,
    /// The folder that contains the output, and for which the stage was created.
    pub(super) parent: &'a Path,
    /// The target folder, relative to `parent`; `None` for `parent` itself.
    pub(super) folder: Option<&'a OsStr>,
    pub(super) disk: Disk,
    pub(super) sync: bool,
}

/// Examines the staged files and existing targets, and decides which steps are needed.
pub(super) fn plan(files: &[StagedFile], stale: &[StagedFile], at: &Move<'_>, force: bool) -> Result<Set> {
    let names = files.iter().map(|file| file.path.as_str());
    let folder = at.folder();
    check_free(&folder, names.clone(), force)?;
    let missing_folders = folders_of(names).filter(|name| !folder.join(name).is_dir()).collect();
    let mut planned = Vec::with_capacity(files.len());
    for file in files {
        let (from, to) = (at.staged(&file.path)?, at.place(&file.path)?);
        let new = from.identity().map_err(failed("examine a staged file", &from.path))?;
        let new = new.ok_or_else(|| {
            Error::plugin("a planned file was not written").file(to.path.display().to_string())
        })?;
        let old = to.identity().map_err(failed("examine the output", &to.path))?;
        planned.push(SetFile { name: file.path.clone(), index: file.is_index(), new, old });
    }
    planned.sort_by_key(|file| file.index);
    let removes_index = planned.iter().any(|file| !file.index && file.old.is_some());
    let receipts = files.iter().chain(stale).filter(|file| file.kind == FileKind::Receipt);
    let old_receipts = plan_removal(receipts, at)?;
    let (indexes, data): (Vec<_>, Vec<_>) = stale.iter().partition(|file| file.is_index());
    let stale = plan_removal(indexes.into_iter().chain(data), at)?;
    Ok(Set {
        folder: at.folder.map(OsStr::to_owned),
        force,
        removes_index,
        missing_folders,
        files: planned,
        old_receipts,
        stale,
    })
}

/// Returns the files in this list that currently exist, with their identities.
fn plan_removal<'a>(files: impl Iterator<Item = &'a StagedFile>, at: &Move<'_>) -> Result<Vec<StaleFile>> {
    let mut planned = Vec::new();
    for file in files {
        let place = at.place(&file.path)?;
        let old = place.identity().map_err(failed("examine an older output's file", &place.path))?;
        planned.extend(old.map(|old| StaleFile { name: file.path.clone(), old }));
    }
    Ok(planned)
}

/// Renames an empty file into each existing target folder, to test the rename. The folder that
/// contains the stage is not tested. A target folder may be on a different file system, and ferry
/// must detect this before it removes any file of the older output.
pub(super) fn try_renames(set: &Set, at: &Move<'_>) -> Result<()> {
    let names = set.files.iter().map(|file| file.name.as_str());
    let folders = folders_of(names).filter(|name| !set.missing_folders.contains(name));
    let own = at.folder.map(|_| String::new());
    for name in own.into_iter().chain(folders) {
        let file = area::probe();
        let created = File::create(at.root.join(&file));
        created.map_err(failed("create a file in the staging folder", at.root))?;
        let from = Place::find(at.root, Path::new(&file))?;
        let to = at.place(Path::new(&name).join(&file))?;
        let failed = || failed("rename files into the output's folder", &to.path);
        let renamed = from.at().and_then(|from| Disk::rename(from, to.at()?));
        renamed.map_err(|error| match error.kind() {
            ErrorKind::CrossesDevices => {
                failed()(io::Error::new(error.kind(), "a different file system is mounted there"))
                    .hint("choose an output folder inside that file system, or one outside it")
            }
            _ => failed()(error),
        })?;
        let reached = fault::reach("rename-tried");
        to.remove().map_err(failed())?;
        reached?;
    }
    Ok(())
}

/// Removes the probe files of a killed run. The probe files are in the output's folder, and in the
/// sub-folders for which the run's stage contains files.
pub(super) fn remove_probes(root: &Path, folder: &Path) {
    let mut names = vec![PathBuf::new()];
    while let Some(name) = names.pop() {
        if let Ok(place) = Place::find(folder, &name.join(area::probe()))
            && place.stat().is_ok_and(|there| there.is_some_and(|file| file.is_file() && file.len() == 0))
        {
            let _ = place.remove();
        }
        for entry in fs::read_dir(root.join(NEW).join(&name)).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.push(name.join(entry.file_name()));
            }
        }
    }
}

/// Performs the remaining steps of the commit.
pub(super) fn finish(set: &Set, at: &Move<'_>) -> Result<()> {
    for name in &set.missing_folders {
        let place = at.place(name)?;
        let is_there = || place.stat().is_ok_and(|there| there.is_some_and(|meta| meta.is_dir()));
        match place.make_folder() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_there() => {}
            made => made.map_err(failed("create the output's folder", &place.path))?,
        }
    }
    if set.removes_index {
        remove_indexes(set, at)?;
    }
    let (data, indexes) = set.files.split_at(set.files.partition_point(|file| !file.index));
    rename_all(data, "file-renamed", set, at)?;
    // Old receipts are removed first. Otherwise `ferry verify` would check the new files against an
    // old receipt and report them as damaged.
    remove_old(&set.old_receipts, "old-receipt-removed", at)?;
    rename_all(indexes, "index-renamed", set, at)?;
    remove_old(&set.stale, "stale-removed", at)
}

fn rename_all(files: &[SetFile], reached: &'static str, set: &Set, at: &Move<'_>) -> Result<()> {
    for file in files {
        if rename(file, set, at)? {
            fault::reach(reached)?;
        }
    }
    // The files must be on disk before an index refers to them.
    sync_folders(files.iter().map(|file| file.name.as_str()), at)
}

/// Removes files of an older set unless they have changed since the plan was made.
fn remove_old(files: &[StaleFile], reached: &'static str, at: &Move<'_>) -> Result<()> {
    for file in files {
        let place = at.place(&file.name)?;
        let there = place.identity().map_err(failed("examine an older output's file", &place.path))?;
        if there == Some(file.old) {
            place.remove().map_err(failed("remove an older output's file", &place.path))?;
            fault::reach(reached)?;
        }
    }
    sync_folders(files.iter().map(|file| file.name.as_str()), at)
}

/// Removes each old index whose replacement is still staged.
fn remove_indexes(set: &Set, at: &Move<'_>) -> Result<()> {
    let mut removed = Vec::new();
    for file in set.files.iter().filter(|file| file.index && file.old.is_some()) {
        let (from, to) = (at.staged(&file.name)?, at.place(&file.name)?);
        let staged = from.stat().map_err(failed("examine a staged file", &from.path))?.is_some();
        let there = to.identity().map_err(failed("examine the old index", &to.path))?;
        if staged && there.is_some() && there != Some(file.new) {
            to.remove().map_err(failed("remove the old index", &to.path))?;
            removed.push(file.name.as_str());
        }
    }
    if removed.is_empty() {
        return Ok(());
    }
    sync_folders(removed.into_iter(), at)?;
    fault::reach("old-index-removed")
}

/// Renames one file into place. Returns `false` if the file was no longer staged.
fn rename(file: &SetFile, set: &Set, at: &Move<'_>) -> Result<bool> {
    let (from, to) = (at.staged(&file.name)?, at.place(&file.name)?);
    if from.stat().map_err(failed("examine a staged file", &from.path))?.is_none() {
        return Ok(false);
    }
    let rename = || {
        let (from, to) = (from.at()?, to.at()?);
        if set.force { Disk::rename(from, to) } else { at.disk.rename_new(from, to) }
    };
    match rename() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !set.force => {
            // If the file system uses a hard link instead of a rename, an interrupted run may have
            // ended immediately after it created the link.
            if to.identity().map_err(failed("examine the output", &to.path))? != Some(file.new) {
                return Err(exists(&to.path));
            }
            from.remove().map_err(failed("remove a staged file", &from.path))?;
        }
        renamed => renamed.map_err(failed("rename the output into place", &to.path))?,
    }
    Ok(true)
}

/// Returns whether any name of the set has changed since the record was written.
pub(super) fn is_begun(set: &Set, at: &Move<'_>) -> bool {
    set.files.iter().any(|file| {
        let there = at.place(&file.name).and_then(|to| to.identity().map_err(Error::from));
        there.ok() != Some(file.old)
    })
}

/// Returns whether a file under one of the names is neither the old file nor the new one. In that
/// case, another program has written the file, and continuing would destroy it.
pub(super) fn is_superseded(set: &Set, at: &Move<'_>) -> Result<bool> {
    for file in &set.files {
        let to = at.place(&file.name)?;
        let there = to.identity().map_err(failed("examine the output", &to.path))?;
        if there.is_some() && there != Some(file.new) && there != file.old {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Undoes the renames, so that the names become free again. Called only for a set that replaced no
/// files.
pub(super) fn roll_back(set: &Set, at: &Move<'_>) {
    for file in set.files.iter().rev() {
        let Ok(to) = at.place(&file.name) else { continue };
        if matches!(to.identity(), Ok(Some(there)) if there == file.new) {
            // The cause of the failure is already reported. If a file cannot be removed, it remains
            // in place as a complete file.
            let _ = to.remove();
        }
    }
    for name in set.missing_folders.iter().rev() {
        let _ = at.place(name).map(|place| place.remove_folder());
    }
}

/// Checks that each name is free in `folder`, or may be replaced.
pub(super) fn check_free<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a str> + Clone,
    force: bool,
) -> Result<()> {
    for name in folders_of(names.clone()) {
        let path = folder.join(name);
        let there = stat(&path).map_err(failed("examine the output's folder", &path))?;
        if there.is_some_and(|meta| !meta.is_dir()) {
            return Err(in_the_way(&path, "not a folder", "one"));
        }
    }
    for name in names {
        let path = folder.join(name);
        if stat(&path).map_err(failed("examine the output", &path))?.is_none() {
            continue;
        }
        // A link is replaced, not followed. A link to a device, such as /dev/stdout, is not
        // replaced.
        if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Err(in_the_way(&path, "not a regular file", "one"));
        }
        if !force {
            return Err(exists(&path));
        }
    }
    Ok(())
}

/// Returns the folders that relative names contain, parents first.
pub(super) fn folders_of<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let folders: BTreeSet<&str> =
        names.flat_map(|name| name.match_indices('/').map(move |(at, _)| &name[..at])).collect();
    folders.into_iter().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// Syncs the folders, so that the names of files and folders survive a power failure.
fn sync_folders<'a>(names: impl Iterator<Item = &'a str>, at: &Move<'_>) -> Result<()> {
    let names: Vec<&str> = names.collect();
    if !at.sync || names.is_empty() {
        return Ok(());
    }
    let folder = at.folder();
    for name in folders_of(names.into_iter()) {
        let path = folder.join(name);
        sync(&path).map_err(failed("sync the output's folder", &path))?;
    }
    sync(&folder).map_err(failed("sync the output's folder", &folder))
}

impl Move<'_> {
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.map_or_else(|| self.parent.to_owned(), |name| self.parent.join(name))
    }

    /// Finds the target of a name. Links are followed only in the path to `parent`, because the
    /// user typed that path.
    fn place(&self, name: impl AsRef<Path>) -> Result<Place> {
        match self.folder {
            Some(folder) => Place::find(self.parent, &Path::new(folder).join(name)),
            None => Place::find(self.parent, name.as_ref()),
        }
    }

    fn staged(&self, name: &str) -> Result<Place> {
        Place::find(self.root, &Path::new(NEW).join(name))
    }
}
