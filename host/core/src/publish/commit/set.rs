//! A set is committed file by file: data files first, indexes last.
//!
//! Where names of data files collide with an older set, the old index is removed before the first of them
//! is replaced. So whoever opens the set by its index finds the old one, none, or the new one. All steps
//! are in the commit record, and each can be done again: the run that recovers calls the same [`finish`].

use super::record::{Set, SetFile, StaleFile};
use crate::context::fault;
use crate::publish::disk::{Disk, exists, failed, identity, in_the_way, remove_if_there, stat, sync};
use crate::publish::stage::StagedFile;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// Where a set comes from and goes to, and how.
#[derive(Debug, Clone)]
pub(super) struct Move {
    pub(super) staged: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) disk: Disk,
    pub(super) sync: bool,
}

/// Looks at what is staged and what stands under the names, and decides the steps.
pub(super) fn plan(
    files: &[StagedFile],
    stale: &[StagedFile],
    at: &Move,
    folder: Option<OsString>,
    force: bool,
) -> Result<Set> {
    let names = files.iter().map(|file| file.path.as_str());
    check_free(&at.folder, names.clone(), force)?;
    let missing_folders = folders_of(names).filter(|name| !at.folder.join(name).is_dir()).collect();
    let mut planned = Vec::with_capacity(files.len());
    for file in files {
        let (from, to) = (at.staged.join(&file.path), at.folder.join(&file.path));
        let new = identity(&from).map_err(failed("look at a staged file", &from))?;
        let new = new.ok_or_else(|| {
            Error::plugin("a planned file has not been written").file(to.display().to_string())
        })?;
        let old = identity(&to).map_err(failed("look at the output", &to))?;
        planned.push(SetFile { name: file.path.clone(), index: file.index, new, old });
    }
    planned.sort_by_key(|file| file.index);
    let removes_index = planned.iter().any(|file| !file.index && file.old.is_some());
    let stale = plan_stale(stale, at)?;
    Ok(Set { folder, force, removes_index, missing_folders, files: planned, stale })
}

/// The files of an older set that are still there, indexes first.
fn plan_stale(stale: &[StagedFile], at: &Move) -> Result<Vec<StaleFile>> {
    let (indexes, data): (Vec<_>, Vec<_>) = stale.iter().partition(|file| file.index);
    let mut planned = Vec::with_capacity(stale.len());
    for file in indexes.into_iter().chain(data) {
        let path = at.folder.join(&file.path);
        let old = identity(&path).map_err(failed("look at an older output's file", &path))?;
        planned.extend(old.map(|old| StaleFile { name: file.path.clone(), old }));
    }
    Ok(planned)
}

/// Does the steps that are not done yet.
pub(super) fn finish(set: &Set, at: &Move) -> Result<()> {
    for name in &set.missing_folders {
        let path = at.place(name)?;
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
            made => made.map_err(failed("create the output's folder", &path))?,
        }
    }
    if set.removes_index {
        remove_indexes(set, at)?;
    }
    let (data, indexes) = set.files.split_at(set.files.partition_point(|file| !file.index));
    for (files, stage) in [(data, "file-renamed"), (indexes, "index-renamed")] {
        for file in files {
            if rename(file, set, at)? {
                fault::reach(stage)?;
            }
        }
        // Before an index is there again, what it points to has to last.
        sync_folders(files.iter().map(|file| file.name.as_str()), at)?;
    }
    remove_stale(set, at)
}

/// Removes what an older set has left, unless somebody has changed it since.
fn remove_stale(set: &Set, at: &Move) -> Result<()> {
    for file in &set.stale {
        let path = at.place(&file.name)?;
        let there = identity(&path).map_err(failed("look at an older output's file", &path))?;
        if there == Some(file.old) {
            remove_if_there(&path).map_err(failed("remove an older output's file", &path))?;
            fault::reach("stale-removed")?;
        }
    }
    sync_folders(set.stale.iter().map(|file| file.name.as_str()), at)
}

/// Removes those old indexes whose new ones are still staged.
fn remove_indexes(set: &Set, at: &Move) -> Result<()> {
    let mut removed = Vec::new();
    for file in set.files.iter().filter(|file| file.index && file.old.is_some()) {
        let (from, to) = file.places(at)?;
        let staged = stat(&from).map_err(failed("look at a staged file", &from))?.is_some();
        let there = identity(&to).map_err(failed("look at the old index", &to))?;
        if staged && there.is_some() && there != Some(file.new) {
            fs::remove_file(&to).map_err(failed("remove the old index", &to))?;
            removed.push(file.name.as_str());
        }
    }
    if removed.is_empty() {
        return Ok(());
    }
    sync_folders(removed.into_iter(), at)?;
    fault::reach("old-index-removed")
}

/// Renames one file into place; whether there was something to do.
fn rename(file: &SetFile, set: &Set, at: &Move) -> Result<bool> {
    let (from, to) = file.places(at)?;
    if stat(&from).map_err(failed("look at a staged file", &from))?.is_none() {
        return Ok(false);
    }
    let renamed = if set.force { fs::rename(&from, &to) } else { at.disk.rename_new(&from, &to) };
    match renamed {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !set.force => {
            // A hard link that stood in for the rename may have been the last thing that a run did.
            if identity(&to).map_err(failed("look at the output", &to))? != Some(file.new) {
                return Err(exists(&to));
            }
            remove_if_there(&from).map_err(failed("remove a staged file", &from))?;
        }
        renamed => renamed.map_err(failed("rename the output into place", &to))?,
    }
    Ok(true)
}

/// Whether any name of the set has changed since the record was written.
pub(super) fn is_begun(set: &Set, at: &Move) -> bool {
    set.files.iter().any(|file| {
        let there = file.places(at).and_then(|(_, to)| identity(&to).map_err(Error::from));
        there.ok() != Some(file.old)
    })
}

/// Whether something stands under one of the names that is neither the old file nor the new: somebody else
/// has written there since, and to go on would destroy it.
pub(super) fn is_superseded(set: &Set, at: &Move) -> Result<bool> {
    for file in &set.files {
        let (_, to) = file.places(at)?;
        let there = identity(&to).map_err(failed("look at the output", &to))?;
        if there.is_some() && there != Some(file.new) && there != file.old {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes back what was renamed. Only for a set that replaced nothing: it leaves the names free again.
pub(super) fn roll_back(set: &Set, at: &Move) {
    for file in set.files.iter().rev() {
        let Ok((_, to)) = file.places(at) else { continue };
        if matches!(identity(&to), Ok(Some(there)) if there == file.new) {
            // The cause is being reported; what cannot be taken back stays as a whole file.
            let _ = fs::remove_file(&to);
        }
    }
    for name in set.missing_folders.iter().rev() {
        let _ = at.place(name).map(fs::remove_dir);
    }
}

/// Whether each name is free in `folder`, or may be replaced.
pub(super) fn check_free<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a str> + Clone,
    force: bool,
) -> Result<()> {
    for name in folders_of(names.clone()) {
        let path = folder.join(name);
        let there = stat(&path).map_err(failed("look at the output's folder", &path))?;
        if there.is_some_and(|meta| !meta.is_dir()) {
            return Err(in_the_way(&path, "not a folder", "one"));
        }
    }
    for name in names {
        let path = folder.join(name);
        if stat(&path).map_err(failed("look at the output", &path))?.is_none() {
            continue;
        }
        // A link is replaced, not followed. But not one to a device, such as /dev/stdout.
        if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Err(in_the_way(&path, "not a regular file", "one"));
        }
        if !force {
            return Err(exists(&path));
        }
    }
    Ok(())
}

/// The folders of relative names, parents first.
pub(super) fn folders_of<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let folders: BTreeSet<&str> =
        names.flat_map(|name| name.match_indices('/').map(move |(at, _)| &name[..at])).collect();
    folders.into_iter().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// Makes the names of files survive a power cut, and the folders that they lie in.
fn sync_folders<'a>(names: impl Iterator<Item = &'a str>, at: &Move) -> Result<()> {
    let names: Vec<&str> = names.collect();
    if !at.sync || names.is_empty() {
        return Ok(());
    }
    for name in folders_of(names.into_iter()) {
        let path = at.folder.join(name);
        sync(&path).map_err(failed("sync the output's folder", &path))?;
    }
    sync(&at.folder).map_err(failed("sync the output's folder", &at.folder))
}

impl Move {
    /// Where a name is in the output's folder. A link among the folders in it leads elsewhere, and is not
    /// followed: only those in the path to the output's folder are the user's own words.
    fn place(&self, name: &str) -> Result<PathBuf> {
        no_links(&self.folder, name)?;
        Ok(self.folder.join(name))
    }
}

/// Checks that no folder of a relative name is a link.
fn no_links(folder: &Path, name: &str) -> Result<()> {
    for (at, _) in name.match_indices('/') {
        let path = folder.join(&name[..at]);
        let there = stat(&path).map_err(failed("look at the output's folder", &path))?;
        if there.is_some_and(|meta| meta.is_symlink()) {
            return Err(in_the_way(&path, "a symbolic link", "a folder"));
        }
    }
    Ok(())
}

impl SetFile {
    /// Where it is staged, and where it goes.
    fn places(&self, at: &Move) -> Result<(PathBuf, PathBuf)> {
        no_links(&at.staged, &self.name)?;
        Ok((at.staged.join(&self.name), at.place(&self.name)?))
    }
}
