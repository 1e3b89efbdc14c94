//! Recovery handles the stages of interrupted runs. The lock of such a stage is free.
//!
//! A stage without a record is removed, because none of its files were visible. If the record
//! describes a set, its commit is finished. If the record describes an exchange, the commit is
//! finished if the exchange has happened. Otherwise the stage is removed, because the old folder is
//! still complete. A set is abandoned if other files have since been written under its names.
//! Recovery does not change other users' stages, or stages that another run has locked. Recovery
//! also does not change stages without a proof that they were created in their current location
//! (`stage/proof.rs`). The user gets a note about a stage without proof, and may finish its commit
//! with `ferry recover`.

use super::folder;
use super::record::{Action, Exchange, Record, Set};
use super::set::{self, Move};
use crate::beneath::OpenFolder;
use crate::disk::{Disk, failed, in_the_way, stat};
use crate::stage::{Destination, WithoutLocks, area, lock, new_folder, places, proof, remove};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// The result of handling the stages of interrupted runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The folders of the outputs whose commits were finished.
    pub finished: Vec<PathBuf>,
    /// Number of stages that were removed because there was nothing to finish.
    pub removed: usize,
    /// Notes about stages that were abandoned or left unchanged, one sentence each.
    pub notes: Vec<String>,
}

impl Recovered {
    /// Adds the results of a later recovery. If the later recovery finds the same stages again,
    /// their notes are not repeated.
    pub fn append(&mut self, later: Self) {
        let known = self.notes.clone();
        self.finished.extend(later.finished);
        self.removed += later.removed;
        self.notes.extend(later.notes.into_iter().filter(|note| !known.contains(note)));
    }
}

/// Finishes or removes the stages of interrupted runs at this destination. A stage with a problem
/// is kept, and a note describes the problem.
pub fn recover(destination: &Destination) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for folder in places(destination)? {
        recover_in(&folder, &destination.folder, Disk::default(), &mut recovered)?;
    }
    Ok(recovered)
}

/// `output` is the folder of the output that is about to be written.
fn recover_in(folder: &Path, output: &Path, disk: Disk, recovered: &mut Recovered) -> Result<()> {
    let stages = match area::stages(folder) {
        // A folder may be writable but not readable.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Ok(());
        }
        stages => stages.map_err(failed("search for unfinished outputs", folder))?,
    };
    for stage in stages.iter().filter(|stage| is_ours(stage)) {
        let done = match proof::is_there(stage) {
            true => recover_stage(stage, folder, output, disk, recovered),
            false => note_unproven(stage, recovered),
        };
        if let Err(error) = done {
            recovered.notes.push(format!("{} was left by an earlier run: {error}", stage.display()));
        }
    }
    Ok(())
}

/// Handles a stage without a valid proof: adds a note and does not change the stage, unless the
/// stage is empty.
fn note_unproven(root: &Path, recovered: &mut Recovered) -> Result<()> {
    let holds_nothing = || proof::is_not_needed(root).map_err(failed("read a staging folder", root));
    // A run writes the proof before its stage contains anything, and removes the proof when the
    // stage is empty again. The proof may be written and removed between two checks. If a stage is
    // not empty, has no proof, and is then still not empty, no run in this location has left the
    // stage behind.
    if !holds_nothing()? {
        if proof::is_there(root) || holds_nothing()? {
            return Ok(());
        }
        let path = root.display();
        recovered.notes.push(format!(
            "{path} was copied, unpacked or cloned, not created here, and is left alone; remove it, or check \
             its commit.json and finish the commit with `ferry recover {path}`"
        ));
        return Ok(());
    }
    let failed = || failed("remove an empty staging folder", root);
    match lock(root, WithoutLocks::Leave).map_err(failed())? {
        Some(_lock) => remove(root).map_err(failed()),
        None => Ok(()),
    }
}

/// Finishes or removes one stage because the user requested it, even if the stage has no proof.
pub fn recover_by_hand(stage: &Path) -> Result<Recovered> {
    let refused = |why| Err(Error::usage(why).file(stage.display().to_string()));
    let root = std::fs::canonicalize(stage).map_err(failed("find the staging folder", stage))?;
    let Some(folder) = area::folder_of(&root).filter(|_| is_ours(&root)) else {
        return refused("not one of ferry's staging folders, or it belongs to another user");
    };
    let mut recovered = Recovered::default();
    recover_stage(&root, folder, folder, Disk::default(), &mut recovered)?;
    if recovered == Recovered::default() {
        return refused("another run is using the staging folder");
    }
    Ok(recovered)
}

fn is_ours(root: &Path) -> bool {
    stat(root).ok().flatten().as_ref().is_some_and(area::is_ours)
}

fn recover_stage(
    root: &Path,
    parent: &Path,
    output: &Path,
    disk: Disk,
    recovered: &mut Recovered,
) -> Result<()> {
    let lock = lock(root, WithoutLocks::Leave).map_err(failed("lock an abandoned staging folder", root))?;
    let Some(_lock) = lock else { return Ok(()) };
    let end = match Record::read(root)? {
        None => {
            set::remove_probes(root, output);
            StageOutcome::Nothing
        }
        Some(Record { action: Action::Set(set), sync, .. }) => finish_set(&set, root, parent, disk, sync)?,
        Some(Record { action: Action::Exchange(exchange), sync, .. }) => {
            finish_exchange(&exchange, root, parent, disk, sync)?
        }
    };
    remove(root).map_err(failed("remove an abandoned staging folder", root))?;
    match end {
        StageOutcome::Nothing => recovered.removed += 1,
        StageOutcome::Finished(folder) => recovered.finished.push(folder),
        StageOutcome::GivenUp(folder) => recovered.notes.push(format!(
            "the unfinished output of an earlier run in {} was abandoned: its files have changed since",
            folder.display()
        )),
    }
    Ok(())
}

/// Checks that a folder is not a symbolic link.
fn check_not_link(path: &Path) -> Result<()> {
    let there = stat(path).map_err(failed("examine the output's folder", path))?;
    match there.is_some_and(|meta| meta.is_symlink()) {
        true => Err(in_the_way(path, "a symbolic link", "a folder")),
        false => Ok(()),
    }
}

enum StageOutcome {
    Nothing,
    Finished(PathBuf),
    GivenUp(PathBuf),
}

fn finish_set(set: &Set, root: &Path, parent: &Path, disk: Disk, sync: bool) -> Result<StageOutcome> {
    let at = Move { root, parent, folder: set.folder.as_deref(), disk, sync };
    let folder = at.folder();
    if folder.is_dir() && !set::is_superseded(set, &at)? {
        match set::finish(set, &at) {
            Ok(()) => return Ok(StageOutcome::Finished(folder)),
            Err(_) if set::is_superseded(set, &at)? => {}
            Err(error) => return Err(error),
        }
    }
    if !set.force {
        set::roll_back(set, &at);
    }
    Ok(StageOutcome::GivenUp(folder))
}

fn finish_exchange(
    exchange: &Exchange,
    root: &Path,
    parent: &Path,
    disk: Disk,
    sync: bool,
) -> Result<StageOutcome> {
    let (staged, target) = (new_folder(root), parent.join(&exchange.folder));
    let inode = |path: &Path| {
        Ok::<_, Error>(
            stat(path).map_err(failed("examine the replaced folder", path))?.map(|meta| meta.ino()),
        )
    };
    check_not_link(&staged)?;
    check_not_link(&target)?;
    match (inode(&staged)?, inode(&target)?) {
        (None, _) => Ok(StageOutcome::Finished(target)),
        (Some(staged), _) if staged == exchange.new_inode => Ok(StageOutcome::Nothing),
        (Some(old), Some(new)) if (old, new) == (exchange.old_inode, exchange.new_inode) => {
            exchange.drain(&staged, &target, disk, sync)?;
            Ok(StageOutcome::Finished(target))
        }
        _ => Err(Error::io(
            "the output of this stage has been moved, and the stage may hold other files; check it, then remove it",
        )
        .file(staged.display().to_string())),
    }
}

impl Exchange {
    /// Empties and removes the old folder after the exchange, with [`folder::drain`].
    pub(super) fn drain(&self, old: &Path, new: &Path, disk: Disk, sync: bool) -> Result<()> {
        let output: HashSet<&Path> = self.files.iter().map(Path::new).collect();
        let open = |path: &Path, inode: u64| {
            let failed = || failed("open the exchanged folder", path);
            let top = OpenFolder::open(path).map_err(failed())?;
            match top.metadata().map_err(failed())?.ino() == inode {
                true => Ok(top),
                false => Err(Error::io("the folder is not the one that was exchanged")
                    .file(path.display().to_string())),
            }
        };
        folder::drain(&open(old, self.old_inode)?, &open(new, self.new_inode)?, &output, disk, sync)
    }
}
