//! A commit makes a staged output visible. The commit uses only renames, so a reader never sees an
//! incomplete file.
//!
//! - *One file*, or *a new folder*: one rename.
//! - *A folder that is replaced*: an exchange with the staged folder; see `commit/folder.rs`.
//! - *A set among other files*, or a folder that cannot be exchanged: file by file; see
//!   `commit/set.rs`.
//!
//! The last two kinds of commit take more than one step. Before the first visible step, a record of
//! all steps is written into the stage. With this record, the next run can finish an interrupted
//! commit; see [`recover()`].
//!
//! ferry does not synchronize concurrent runs that replace the same names. With `--force`, the last
//! rename of each name wins. An interrupted commit is not finished if other files have since been
//! written under its names.

mod folder;
mod record;
mod recover;
mod set;

pub use recover::{Recovered, recover, recover_by_hand};

use crate::beneath::{OpenFolder, Place};
use crate::disk::{adopt, exists, failed, in_the_way, stat, sync, sync_folders};
use crate::platform::reports_late;
use crate::stage::area::is_area;
use crate::stage::{Destination, DestinationKind, Stage, StagedFile, check_relative};
use folder::CarryResult;
use record::{Action, Exchange, Record};
use serde::{Deserialize, Serialize};
use set::Move;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tensorferry_core::context::fault;
use tensorferry_sdk::Result;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitOptions {
    /// Whether existing files under the output's names are replaced.
    pub force: bool,
    /// Whether files and folders are synced, so that the guarantees for a killed process also hold
    /// for a power failure.
    pub sync: bool,
}

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The output's files, in the order in which they were passed to the commit.
    pub files: Vec<PathBuf>,
    /// Notes about unusual events, one sentence each.
    pub notes: Vec<String>,
}

/// Checks, before writing starts, that an output consisting of these files may be written. Names
/// are relative to the destination's folder. If the output is a folder, an empty folder may already
/// exist.
///
/// Returns an error if an entry exists and `force` is off. Returns an error even with `force` if
/// ferry does not replace entries of this kind, such as a folder in place of a file.
pub fn check_free<'a>(
    destination: &Destination,
    names: impl IntoIterator<Item = &'a str>,
    force: bool,
) -> Result<()> {
    let (folder, names): (_, Vec<&str>) = (&destination.folder, names.into_iter().collect());
    names.iter().try_for_each(|name| check_relative(name))?;
    if let Ok(meta) = fs::metadata(folder) {
        if !meta.is_dir() {
            return Err(in_the_way(folder, "not a folder", "one"));
        }
        let must_be_empty = destination.kind == DestinationKind::Folder && !force;
        if must_be_empty && !is_empty(folder).map_err(failed("read the output's folder", folder))? {
            return Err(exists(folder));
        }
    }
    set::check_free(folder, names.into_iter(), force)
}

impl Stage {
    /// Makes the output visible, and removes the stage.
    ///
    /// Returns an error if a name is taken and `force` is off, even if the name was taken only
    /// after the check. In that case, no file of the output remains. If an I/O error occurs with
    /// `force`, a partly replaced set is kept in its stage. The next run with the same destination
    /// finishes the commit.
    pub fn commit(mut self, files: &[StagedFile], options: CommitOptions) -> Result<Committed> {
        files.iter().try_for_each(|file| check_relative(&file.path))?;
        self.flush(files, options)?;
        let notes = match self.site.whole.clone() {
            Some(name) => self.commit_folder(&name, files, options)?,
            None => {
                self.commit_files(None, files, options)?;
                Vec::new()
            }
        };
        if options.sync {
            for folder in self.site.made.0.iter().filter_map(|made| made.parent()) {
                sync(folder).map_err(failed("sync the output's folder", folder))?;
            }
        }
        fault::reach("committed")?;
        Ok(Committed { files: files.iter().map(|file| self.site.shown.join(&file.path)).collect(), notes })
    }

    /// Flushes the staged bytes to disk if requested, or if write errors could otherwise appear
    /// later.
    fn flush(&self, files: &[StagedFile], options: CommitOptions) -> Result<()> {
        if options.sync || reports_late(&self.root) {
            for file in files {
                let path = self.path(&file.path);
                sync(&path).map_err(failed("sync the output", &self.site.shown.join(&file.path)))?;
            }
        }
        if options.sync {
            sync_folders(&self.root).map_err(failed("sync the staging folder", &self.root))?;
        }
        Ok(())
    }

    /// Renames the files one by one into the parent folder or one of its sub-folders.
    fn commit_files(
        &mut self,
        folder: Option<&OsStr>,
        files: &[StagedFile],
        options: CommitOptions,
    ) -> Result<()> {
        let (root, parent) = (&self.root, &self.site.parent);
        let at = Move { root, parent, folder, disk: self.disk, sync: options.sync };
        let set = set::plan(files, &self.stale, &at, options.force)?;
        set::try_renames(&set, &at)?;
        // A single rename is atomic and needs no record.
        if files.len() > 1 || !set.missing_folders.is_empty() || !set.stale.is_empty() {
            Record::new(Action::Set(set.clone()), options.sync).write(&self.root)?;
        }
        set::finish(&set, &at).map_err(|error| {
            if set.force && set::is_begun(&set, &at) {
                self.keep = true;
                return error
                    .context("the older output is partly replaced; the next run in this folder finishes it");
            }
            set::roll_back(&set, &at);
            error
        })
    }

    /// Renames or exchanges the staged folder as a whole, if possible. Returns notes.
    fn commit_folder(
        &mut self,
        name: &OsStr,
        files: &[StagedFile],
        options: CommitOptions,
    ) -> Result<Vec<String>> {
        let target = self.site.parent.join(name);
        let Some(old) = stat(&target).map_err(failed("examine the output's folder", &target))? else {
            return self.rename_folder(&target, options);
        };
        if !old.is_dir() {
            return Err(in_the_way(&target, "not a folder", "one"));
        }
        let empty = is_empty(&target).map_err(failed("read the output's folder", &target))?;
        if !empty && !options.force {
            return Err(exists(&self.site.shown));
        }
        let adopted =
            || OpenFolder::open(&self.new_folder()).and_then(|new| adopt(&new.below(Path::new(""))?, &old));
        if empty && adopted().is_ok() {
            return self.rename_folder(&target, options);
        }
        set::check_free(&target, files.iter().map(|file| file.path.as_str()), options.force)?;
        match self.exchange_folder(name, old.ino(), files, options)? {
            ExchangeResult::Done(notes) => Ok(notes),
            ExchangeResult::Cannot(reason) => {
                self.commit_files(Some(name), files, options)?;
                Ok(vec![format!(
                    "{} could not be exchanged as a whole ({reason}): its files were replaced one by one",
                    self.site.shown.display()
                )])
            }
        }
    }

    /// A plain rename is sufficient, because it replaces only an empty folder.
    fn rename_folder(&self, target: &Path, options: CommitOptions) -> Result<Vec<String>> {
        fs::rename(self.new_folder(), target).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory => {
                exists(&self.site.shown)
            }
            _ => failed("rename the output into place", target)(error),
        })?;
        fault::reach("folder-renamed")?;
        self.sync_parent(options)?;
        Ok(Vec::new())
    }

    fn exchange_folder(
        &mut self,
        name: &OsStr,
        old_inode: u64,
        files: &[StagedFile],
        options: CommitOptions,
    ) -> Result<ExchangeResult> {
        let (new, target) = (self.new_folder(), self.site.parent.join(name));
        let replaced = || files.iter().chain(&self.stale).map(|file| file.path.clone());
        let stale: HashSet<&Path> = self.stale.iter().map(|file| Path::new(&file.path)).collect();
        if let CarryResult::Cannot(reason) = folder::carry(&target, &new, &stale, self.disk)? {
            return Ok(ExchangeResult::Cannot(reason));
        }
        fault::reach("folder-carried")?;
        if options.sync {
            sync_folders(&new).map_err(failed("sync the staged folder", &new))?;
        }
        let new_inode = fs::symlink_metadata(&new).map_err(failed("examine the staged folder", &new))?.ino();
        let exchange =
            Exchange { folder: name.to_owned(), new_inode, old_inode, files: replaced().collect() };
        Record::new(Action::Exchange(exchange.clone()), options.sync).write(&self.root)?;
        let (staged, shown) = (place_of(&new)?, place_of(&target)?);
        let exchanged = staged.at().and_then(|staged| self.disk.exchange(staged, shown.at()?));
        if let Err(error) = exchanged {
            return Ok(ExchangeResult::Cannot(error.to_string()));
        }
        // From now on, the stage contains the only copy of changes that were made between the carry
        // and the exchange. The stage is kept until it is drained.
        self.keep = true;
        fault::reach("folder-exchanged")?;
        self.sync_parent(options)?;
        let drained = exchange.drain(&new, &target, self.disk, options.sync);
        let notes = match drained {
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("the replaced folder could not be removed completely: {error}")],
        };
        self.keep = !notes.is_empty();
        Ok(ExchangeResult::Done(notes))
    }

    fn sync_parent(&self, options: CommitOptions) -> Result<()> {
        if options.sync {
            sync(&self.site.parent).map_err(failed("sync the output's folder", &self.site.parent))?;
        }
        Ok(())
    }
}

/// Returns the place of a path's last name, in the folder that the rest of the path leads to.
fn place_of(path: &Path) -> Result<Place> {
    let folder = path.parent().unwrap_or(Path::new(""));
    Place::find(folder, Path::new(path.file_name().unwrap_or_default()))
}

enum ExchangeResult {
    Done(Vec<String>),
    Cannot(String),
}

/// Returns whether a folder contains only staging areas.
fn is_empty(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if !is_area(&entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod crash;
#[cfg(test)]
pub(crate) mod tests;
