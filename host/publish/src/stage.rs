//! A stage is a locked temporary folder next to the output, on the same file system. A run writes
//! the whole output into the stage before any file becomes visible. Renames then move the files
//! into place: see [`crate::commit`].
//!
//! ```text
//! PARENT/.ferry-stage-USER/  the staging area (`stage/area.rs`); removed when it contains no stage
//!     XXXXXXXXXXXX/
//!         lock          the lock file; the run that holds its lock owns the stage
//!         proof         metadata of the lock file, to prove that the stage is not from an archive
//!         new/          the output's files, under their final names
//!         commit.json   the commit record, written when a commit of several names begins
//! ```
//!
//! If the lock of a stage is free, an interrupted run left the stage behind. The next run with the
//! same destination finishes the stage's commit or removes the stage (`commit/recover.rs`). The
//! stage must have a proof that it was created in its current location (`stage/proof.rs`). The lock
//! is a file because network file systems do not lock folders. On a file system without locks,
//! ferry never changes the stages of other runs.

pub mod area;
mod lock;
pub mod proof;
mod site;

pub use lock::{WithoutLocks, lacks_locks, lock, remove};
pub use site::places;

use crate::disk::{Disk, failed};
use site::Site;
use std::fs::{self, File, OpenOptions};
use std::path::{Component, Path, PathBuf};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_sdk::{Error, Result};

/// The name of the folder in a stage that contains the output's files.
pub(crate) const NEW: &str = "new";
const LOCK: &str = "lock";

/// Maximum number of attempts to create folders that other runs keep removing.
const ATTEMPTS: usize = 64;

/// The file name of the commit record.
pub(crate) const RECORD: &str = "commit.json";

/// The location of an output, resolved from the path that the user typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The folder of the output's files, as an absolute path.
    pub folder: PathBuf,
    pub kind: DestinationKind,
}

/// The kind of an output's location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationKind {
    /// The output is a single file, or a set of files with a common name, among other files in the
    /// folder.
    Beside {
        /// The name of the file or set.
        name: String,
    },
    /// The folder itself is the output.
    Folder,
}

/// A file of the output that has been written into the stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    /// The file's path relative to the output's folder, with `/` between the parts.
    pub path: String,
    pub kind: FileKind,
}

/// The role of a file in its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Converted data.
    Data,
    /// A file in the input's folder that is copied to the output under the same name.
    Sidecar,
    /// The index, through which readers find the other files. The index becomes visible after the
    /// other files.
    Index,
    /// The receipt, which records the conversion that wrote the other files. The receipt becomes
    /// visible last.
    Receipt,
}

impl StagedFile {
    #[must_use]
    pub fn new(path: impl Into<String>, kind: FileKind) -> Self {
        Self { path: path.into(), kind }
    }

    /// Returns whether this file becomes visible after the data, and is removed before the data of
    /// an older output.
    #[must_use]
    pub fn is_index(&self) -> bool {
        matches!(self.kind, FileKind::Index | FileKind::Receipt)
    }
}

/// A locked staging folder. Dropping the stage without a commit removes it, together with the
/// parent folders that were created for it.
#[derive(Debug)]
pub struct Stage {
    /// The location of the output.
    pub site: Site,
    /// The folder of the stage.
    pub root: PathBuf,
    pub disk: Disk,
    /// Whether to keep the stage when it is dropped. Set when the commit has begun, so that the
    /// next run can finish the commit.
    pub keep: bool,
    /// Files of an older output that the commit removes.
    pub stale: Vec<StagedFile>,
    _lock: File,
}

impl Stage {
    /// Creates missing parent folders, and locks a new stage. The caller must call
    /// [`recover`](crate::commit::recover()) first, to handle the stages of interrupted runs.
    pub fn begin(destination: &Destination) -> Result<Self> {
        Self::begin_on(destination, Disk::default())
    }

    pub(crate) fn begin_on(destination: &Destination, disk: Disk) -> Result<Self> {
        let (site, root, lock) = lock::claim(destination)?;
        let stage = Self { site, root, disk, keep: false, stale: Vec::new(), _lock: lock };
        let new = stage.new_folder();
        fs::create_dir(&new).map_err(failed("create the staging folder", &new))?;
        Ok(stage)
    }

    /// Creates an output file and its parent folders, and opens the file for reading and writing.
    /// The parts of `relative` are separated by `/`. The umask determines the mode. If `len` is
    /// set, the file has this length from the start, so that several threads can write at any
    /// position.
    ///
    /// If the length exceeds the process's limit (RLIMIT_FSIZE), the call returns an error only if
    /// SIGXFSZ is caught or ignored. Otherwise the signal ends the process.
    pub fn create(&self, relative: &str, len: Option<u64>) -> Result<File> {
        check_relative(relative)?;
        let (path, shown) = (self.path(relative), self.site.shown.join(relative));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create the output's folder", &shown))?;
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(failed("create the output", &shown))?;
        if let Some(len) = len {
            file.set_len(len).map_err(failed("set the length of the output", &shown))?;
        }
        Ok(file)
    }

    /// Renames a staged file. Returns an error if the new name leads out of the folder or is the
    /// name of another staged file.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_relative(to)?;
        let (path, shown) = (self.path(to), self.site.shown.join(to));
        if path.symlink_metadata().is_ok() {
            return Err(Error::plugin("two output files have the same name").file(to));
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create the output's folder", &shown))?;
        }
        fs::rename(self.path(from), &path).map_err(failed("name the output", &shown))
    }

    /// Sets the files in the output's folder that belong to an older output. The commit removes
    /// these files.
    pub fn supersede(&mut self, stale: Vec<StagedFile>) -> Result<()> {
        stale.iter().try_for_each(|file| check_relative(&file.path))?;
        self.stale = stale;
        Ok(())
    }

    /// Returns the path of a staged file, from which it can be read before the commit.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.new_folder().join(relative)
    }

    /// Returns the final paths of the output's files, with the files' identities. The commit does
    /// not change the identities.
    pub fn ready(&self, files: &[StagedFile]) -> Result<Vec<(PathBuf, FileIdentity)>> {
        let of = |file: &StagedFile| {
            let shown = self.site.shown.join(&file.path);
            let identity = fs::symlink_metadata(self.path(&file.path)).map(|meta| FileIdentity::of(&meta));
            Ok((shown.clone(), identity.map_err(failed("examine the staged file", &shown))?))
        };
        files.iter().map(of).collect()
    }

    /// Creates an unnamed temporary file. The file disappears when it is closed, even if the
    /// process crashes.
    pub fn spill(&self) -> Result<File> {
        tempfile::tempfile_in(&self.root).map_err(failed("create a temporary file", &self.site.parent))
    }

    pub(crate) fn new_folder(&self) -> PathBuf {
        new_folder(&self.root)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.keep {
            // A drop cannot report errors. The next run removes the files that remain.
            let _ = remove(&self.root);
        }
    }
}

pub(crate) fn new_folder(root: &Path) -> PathBuf {
    root.join(NEW)
}

/// Checks that a relative name does not lead out of its folder.
pub(crate) fn check_relative(name: &str) -> Result<()> {
    let normal = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if normal && !name.is_empty() && !name.contains("//") && !name.ends_with('/') && !name.contains('\0') {
        return Ok(());
    }
    Err(Error::usage("the name of an output file points outside its folder").found(format!("{name:?}")))
}
