//! Recovery deals with the stages of runs that died: those whose lock is free.
//!
//! One without a record is removed: nothing of it was visible. A set's record is finished. An exchange's
//! record is finished if the exchange has happened, else dropped: until then the old folder stands whole.
//! A set is given up, not finished, when somebody else has written under its names since. Stages of other
//! users, those that another run holds, and those that are not proven to have been made where they stand
//! (`stage/proof.rs`) are left alone; of the last the user is told, and may have them finished by hand.

use super::folder;
use super::record::{Action, Exchange, Record, Set};
use super::set::{self, Move};
use crate::beneath::Top;
use crate::disk::{Disk, failed, in_the_way, stat};
use crate::stage::{Destination, WithoutLocks, area, lock, new_folder, places, proof, remove};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// What dead runs had left beside an output, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The outputs whose commit was finished: the folder of each.
    pub finished: Vec<PathBuf>,
    /// How many stages were removed without anything to finish.
    pub removed: usize,
    /// What could not be dealt with, or was given up, and why; one sentence each.
    pub notes: Vec<String>,
}

impl Recovered {
    /// Adds what was found later: a stage that is left alone is found each time.
    pub fn append(&mut self, later: Self) {
        let known = self.notes.clone();
        self.finished.extend(later.finished);
        self.removed += later.removed;
        self.notes.extend(later.notes.into_iter().filter(|note| !known.contains(note)));
    }
}

/// Finishes or removes what dead runs left where this destination's stage would be.
///
/// # Errors
/// Usage, where something else than a folder is in the way; i/o, where the folder cannot be read. What is
/// wrong with one stage becomes a note, and the stage stays.
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
        // One may be allowed to write where one may not look.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Ok(());
        }
        stages => stages.map_err(failed("search for unfinished outputs", folder))?,
    };
    for stage in stages.iter().filter(|stage| is_ours(stage)) {
        let done = match proof::is_there(stage) {
            true => recover_stage(stage, folder, output, disk, recovered),
            false => leave(stage, recovered),
        };
        if let Err(error) = done {
            recovered.notes.push(format!("{} was left by an earlier run: {error}", stage.display()));
        }
    }
    Ok(())
}

/// Leaves a stage that is not proven as it is, unless there is nothing in it.
fn leave(root: &Path, recovered: &mut Recovered) -> Result<()> {
    let holds_nothing = || proof::is_not_needed(root).map_err(failed("read a staging folder", root));
    // A run writes the proof before there is anything in its stage, and removes it when there is nothing any more.
    // Both may happen between two looks: what holds something, has no proof, and still holds it, is none of a run's.
    if !holds_nothing()? {
        if proof::is_there(root) || holds_nothing()? {
            return Ok(());
        }
        let path = root.display();
        recovered.notes.push(format!(
            "{path} was not made here, but copied, unpacked or cloned, and is left alone: remove it, or look at \
             its commit.json and finish what it says with `ferry recover {path}`"
        ));
        return Ok(());
    }
    let failed = || failed("remove an empty staging folder", root);
    match lock(root, WithoutLocks::Leave).map_err(failed())? {
        Some(_lock) => remove(root).map_err(failed()),
        None => Ok(()),
    }
}

/// Finishes or removes one stage because the user says so, wherever it comes from.
///
/// # Errors
/// Usage, if it is no stage of the user's, or in use; whatever is wrong with it.
pub fn recover_by_hand(stage: &Path) -> Result<Recovered> {
    let refused = |why| Err(Error::usage(why).file(stage.display().to_string()));
    let root = std::fs::canonicalize(stage).map_err(failed("find the staging folder", stage))?;
    let Some(folder) = area::folder_of(&root).filter(|_| is_ours(&root)) else {
        return refused("not a staging folder of ferry, or not yours");
    };
    let mut recovered = Recovered::default();
    recover_stage(&root, folder, folder, Disk::default(), &mut recovered)?;
    if recovered == Recovered::default() {
        return refused("a run is using it");
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
            StageEnd::Nothing
        }
        Some(Record { action: Action::Set(set), sync, .. }) => finish_set(&set, root, parent, disk, sync)?,
        Some(Record { action: Action::Exchange(exchange), sync, .. }) => {
            finish_exchange(&exchange, root, parent, disk, sync)?
        }
    };
    remove(root).map_err(failed("remove an abandoned staging folder", root))?;
    match end {
        StageEnd::Nothing => recovered.removed += 1,
        StageEnd::Finished(folder) => recovered.finished.push(folder),
        StageEnd::GivenUp(folder) => recovered.notes.push(format!(
            "an earlier run's unfinished output in {} was given up: somebody else has changed it since",
            folder.display()
        )),
    }
    Ok(())
}

/// Checks that a folder is not a link to one elsewhere.
fn is_no_link(path: &Path) -> Result<()> {
    let there = stat(path).map_err(failed("examine the output's folder", path))?;
    match there.is_some_and(|meta| meta.is_symlink()) {
        true => Err(in_the_way(path, "a symbolic link", "a folder")),
        false => Ok(()),
    }
}

enum StageEnd {
    Nothing,
    Finished(PathBuf),
    GivenUp(PathBuf),
}

fn finish_set(set: &Set, root: &Path, parent: &Path, disk: Disk, sync: bool) -> Result<StageEnd> {
    let at = Move { root, parent, folder: set.folder.as_deref(), disk, sync };
    let folder = at.folder();
    if folder.is_dir() && !set::is_superseded(set, &at)? {
        match set::finish(set, &at) {
            Ok(()) => return Ok(StageEnd::Finished(folder)),
            Err(_) if set::is_superseded(set, &at)? => {}
            Err(error) => return Err(error),
        }
    }
    if !set.force {
        set::roll_back(set, &at);
    }
    Ok(StageEnd::GivenUp(folder))
}

fn finish_exchange(
    exchange: &Exchange,
    root: &Path,
    parent: &Path,
    disk: Disk,
    sync: bool,
) -> Result<StageEnd> {
    let (staged, target) = (new_folder(root), parent.join(&exchange.folder));
    let inode = |path: &Path| {
        Ok::<_, Error>(
            stat(path).map_err(failed("examine the replaced folder", path))?.map(|meta| meta.ino()),
        )
    };
    is_no_link(&staged)?;
    is_no_link(&target)?;
    match (inode(&staged)?, inode(&target)?) {
        (None, _) => Ok(StageEnd::Finished(target)),
        (Some(staged), _) if staged == exchange.new_inode => Ok(StageEnd::Nothing),
        (Some(old), Some(new)) if (old, new) == (exchange.old_inode, exchange.new_inode) => {
            exchange.drain(&staged, &target, disk, sync)?;
            Ok(StageEnd::Finished(target))
        }
        _ => Err(Error::io(
            "its output has been moved, and it may hold other files: look at it, then remove it",
        )
        .file(staged.display().to_string())),
    }
}

impl Exchange {
    /// Empties and removes the old folder once it has been exchanged; see [`folder::drain`].
    pub(super) fn drain(&self, old: &Path, new: &Path, disk: Disk, sync: bool) -> Result<()> {
        let output: HashSet<&Path> = self.files.iter().map(Path::new).collect();
        let open =
            |path: &Path, inode: u64| {
                let failed = || failed("open the exchanged folder", path);
                let top = Top::open(path).map_err(failed())?;
                match top.metadata().map_err(failed())?.ino() == inode {
                    true => Ok(top),
                    false => Err(Error::io("another folder is there than was exchanged")
                        .file(path.display().to_string())),
                }
            };
        folder::drain(&open(old, self.old_inode)?, &open(new, self.new_inode)?, &output, disk, sync)
    }
}
