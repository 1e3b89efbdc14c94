//! A stage is a locked temporary folder beside the output, on the same file system, where a run writes
//! everything before any of it becomes visible. Renames then make it the output: see [`crate::commit`].
//!
//! ```text
//! PARENT/.ferry-stage-USER/  the staging area (`stage/area.rs`), there as long as a stage is in it
//!     XXXXXXXXXXXX/
//!         lock          locked with flock as long as the run lives; whoever holds it owns the stage
//!         proof         what the file system made of the lock: that the stage did not come with an archive
//!         new/          the output's files, under their own names
//!         commit.json   the commit record, once the commit of several names has been decided
//! ```
//!
//! A stage whose lock is free was left by a run that died. The next run beside it finishes its commit or
//! removes it (`commit/recover.rs`), if it is proven to be ours (`stage/proof.rs`). The lock is a file, since
//! network file systems do not lock folders. Where a file system has no locks at all, nothing that was left is
//! ever touched.

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

/// The folder of the output's files in a stage.
pub(crate) const NEW: &str = "new";
const LOCK: &str = "lock";

/// How often what other runs remove meanwhile is made again.
const ATTEMPTS: usize = 64;

/// The name of the commit record.
pub(crate) const RECORD: &str = "commit.json";

/// Where an output goes, resolved from what the user typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The folder that the files come to lie in; absolute.
    pub folder: PathBuf,
    /// Whether that folder is the output's own.
    pub kind: DestinationKind,
}

/// Whether an output shares its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationKind {
    /// One file, or a set of files named after it, among others in the folder.
    Beside {
        /// The file's name, or the set's.
        name: String,
    },
    /// The folder itself is the output.
    Folder,
}

/// A file that has been written into the stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    /// Its name, relative to the output's folder, with `/` between the parts.
    pub path: String,
    /// What it is of the output.
    pub kind: FileKind,
}

/// What a file is of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// What was written of the input.
    Data,
    /// Another file of the input's folder, which goes along under its own name.
    Sidecar,
    /// What the others are found by: it becomes visible after them.
    Index,
    /// What says how the others were made: it becomes visible last.
    Receipt,
}

impl StagedFile {
    /// A file of this name.
    #[must_use]
    pub fn new(path: impl Into<String>, kind: FileKind) -> Self {
        Self { path: path.into(), kind }
    }

    /// Whether it becomes visible when the others are, and of an older output goes before they do.
    #[must_use]
    pub fn is_index(&self) -> bool {
        matches!(self.kind, FileKind::Index | FileKind::Receipt)
    }
}

/// A locked staging folder. Dropping it without a commit removes it, and the parent folders that were
/// made for it.
#[derive(Debug)]
pub struct Stage {
    /// Where the output will be.
    pub site: Site,
    /// The staging folder.
    pub root: PathBuf,
    /// Which system calls are used.
    pub disk: Disk,
    /// Left in place when dropped: its commit was begun, and the next run can finish it.
    pub keep: bool,
    /// Files of an older output that go when this one comes.
    pub stale: Vec<StagedFile>,
    _lock: File,
}

impl Stage {
    /// Makes missing parent folders, and locks a new stage. What dead runs left there should have been dealt
    /// with before.
    ///
    /// # Errors
    /// Usage, where something else than a folder is in the way; else i/o, naming the folder that cannot be
    /// written to.
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

    /// Creates an output file, and its folders, to be read and written: `relative` has `/` between its
    /// parts, and the mode is what the umask leaves. Given its length, the file has it from the start, so
    /// that it can be written at any position in parallel.
    ///
    /// A length over the process's limit (RLIMIT_FSIZE) is an error only where SIGXFSZ is caught or
    /// ignored; else the signal ends the process.
    ///
    /// # Errors
    /// I/o, naming the output file.
    pub fn create(&self, relative: &str, len: Option<u64>) -> Result<File> {
        check_relative(relative)?;
        let (path, shown) = (self.path(relative), self.site.shown.join(relative));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create the output's folder", &shown))?;
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(failed("create the output", &shown))?;
        if let Some(len) = len {
            file.set_len(len).map_err(failed("make the output as long as it will be", &shown))?;
        }
        Ok(file)
    }

    /// Gives a staged file another name.
    ///
    /// # Errors
    /// Usage, if the name leaves the folder; a plugin error, if another staged file has it; i/o.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_relative(to)?;
        let (path, shown) = (self.path(to), self.site.shown.join(to));
        if path.symlink_metadata().is_ok() {
            return Err(Error::plugin("two files of one name").file(to));
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create the output's folder", &shown))?;
        }
        fs::rename(self.path(from), &path).map_err(failed("name the output", &shown))
    }

    /// Says which files of the output's folder belong to an older output: the commit removes them.
    ///
    /// # Errors
    /// Usage, if a name leaves the folder.
    pub fn supersede(&mut self, stale: Vec<StagedFile>) -> Result<()> {
        stale.iter().try_for_each(|file| check_relative(&file.path))?;
        self.stale = stale;
        Ok(())
    }

    /// Where a staged file lies until the commit, to be read back.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.new_folder().join(relative)
    }

    /// The output's files under the names that they will have, and what tells them from any others. It stays
    /// the same through the commit.
    ///
    /// # Errors
    /// I/o, naming the file.
    pub fn ready(&self, files: &[StagedFile]) -> Result<Vec<(PathBuf, FileIdentity)>> {
        let of = |file: &StagedFile| {
            let shown = self.site.shown.join(&file.path);
            let identity = fs::symlink_metadata(self.path(&file.path)).map(|meta| FileIdentity::of(&meta));
            Ok((shown.clone(), identity.map_err(failed("look at the staged file", &shown))?))
        };
        files.iter().map(of).collect()
    }

    /// A temporary file without a name: gone when it is closed, however the process ends.
    ///
    /// # Errors
    /// I/o, naming the folder.
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
            // Nobody is left to tell; what remains, the next run removes.
            let _ = remove(&self.root);
        }
    }
}

/// Where the files of a stage lie.
pub(crate) fn new_folder(root: &Path) -> PathBuf {
    root.join(NEW)
}

/// Whether a name stays in the folder that it is relative to.
pub(crate) fn check_relative(name: &str) -> Result<()> {
    let normal = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if normal && !name.is_empty() && !name.contains("//") && !name.ends_with('/') && !name.contains('\0') {
        return Ok(());
    }
    Err(Error::usage("an output's name leaves its folder").found(format!("{name:?}")))
}
