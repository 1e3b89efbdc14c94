//! A stage is a locked temporary folder beside the output, on the same file system, where a run writes
//! everything before any of it becomes visible. Renames then make it the output: see [`crate::commit`].
//!
//! ```text
//! PARENT/.ferry-stage-XXXXXXXXXXXX/
//!     lock          locked with flock as long as the run lives; whoever holds it owns the stage
//!     new/          the output's files, under their own names
//!     commit.json   the commit record, once the commit of several names has been decided
//! ```
//!
//! A stage whose lock is free was left by a run that died. The next run beside it finishes its commit or
//! removes it; see [`crate::commit::recover`]. The lock is a file, since network file systems do not lock
//! folders. Where a file system has no locks at all, nothing that was left is ever touched.

use crate::commit::disk::{Disk, failed, in_the_way, remove_if_there, remove_tree, stat};
use crate::commit::{Recovered, record, recover};
use crate::fault;
use rustix::fs::{Access, AtFlags, CWD, StatxFlags, accessat, statx};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// How the name of every stage starts.
pub(crate) const PREFIX: &str = ".ferry-stage-";
const LOCK: &str = "lock";
const NEW: &str = "new";

/// Where an output goes, resolved from what the user typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The folder that the files come to lie in; absolute.
    pub folder: PathBuf,
    /// Whether that folder is the output's own.
    pub kind: Kind,
}

/// Whether an output shares its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One file, or a set of files named after it, among others in the folder.
    Beside {
        /// The file's name, or the set's.
        name: String,
    },
    /// The folder itself is the output.
    Folder,
}

/// A locked staging folder. Dropping it without a commit removes it, and the parent folders that were
/// made for it.
#[derive(Debug)]
pub struct Stage {
    pub(crate) site: Site,
    pub(crate) root: PathBuf,
    pub(crate) disk: Disk,
    /// Left in place when dropped: its commit was begun, and the next run can finish it.
    pub(crate) keep: bool,
    recovered: Recovered,
    _lock: File,
}

impl Stage {
    /// Makes missing parent folders, finishes or removes what dead runs left there, and locks a new stage.
    ///
    /// # Errors
    /// Usage, where something else than a folder is in the way; else i/o, naming the folder that cannot be
    /// written to.
    pub fn begin(destination: &Destination) -> Result<Self> {
        Self::begin_on(destination, Disk::default())
    }

    pub(crate) fn begin_on(destination: &Destination, disk: Disk) -> Result<Self> {
        let recovered = recover(destination)?;
        let site = Site::make(destination)?;
        let (root, lock) = claim(&site.parent)?;
        let stage = Self { site, root, disk, keep: false, recovered, _lock: lock };
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

    /// Where a staged file lies until the commit, to be read back.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.new_folder().join(relative)
    }

    /// A temporary file without a name: gone when it is closed, however the process ends.
    ///
    /// # Errors
    /// I/o, naming the folder.
    pub fn spill(&self) -> Result<File> {
        tempfile::tempfile_in(&self.root).map_err(failed("create a temporary file", &self.site.parent))
    }

    /// What earlier runs had left here, and what became of it.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
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

/// Folders made on the way, outermost first. Dropping them removes those that stayed empty.
#[derive(Debug, Default)]
pub(crate) struct Made(pub(crate) Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // Fails, as it should, where something has come to lie in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Where a stage stands, and what of its parent the output will be.
#[derive(Debug)]
pub(crate) struct Site {
    /// The folder that holds the stage.
    pub(crate) parent: PathBuf,
    /// The output folder's name in `parent`, to be renamed as a whole; none if the files go to `parent`.
    pub(crate) whole: Option<OsString>,
    /// The output's folder as the user named it, for messages.
    pub(crate) shown: PathBuf,
    /// The parent folders that were missing.
    pub(crate) made: Made,
}

impl Site {
    fn make(destination: &Destination) -> Result<Self> {
        let (parent, whole) = locate(destination)?;
        let made = make_folders(&parent)?;
        Ok(Self { parent, whole, shown: destination.folder.clone(), made })
    }
}

/// The folder for the stage, links resolved as far as it exists, and the name of an output folder in it.
///
/// An output folder gets its stage beside it, so that one rename commits it. It gets it inside, and its
/// files are renamed one by one, where the folder cannot be renamed (another file system is mounted
/// there; its parent is not ours to write to) or should not be: a shell that stands in a folder would be
/// left in one that is gone.
fn locate(destination: &Destination) -> Result<(PathBuf, Option<OsString>)> {
    let given = &destination.folder;
    let folder = match fs::canonicalize(given) {
        Ok(folder) if folder.is_dir() => folder,
        Ok(_) => return Err(in_the_way(given, "not a folder", "one")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if stat(given).map_err(failed("look at the output's folder", given))?.is_some() {
                return Err(in_the_way(given, "a symbolic link to nothing", "a folder"));
            }
            return match (&destination.kind, given.parent(), given.file_name()) {
                (Kind::Folder, Some(parent), Some(name)) => Ok((resolved(parent), Some(name.to_owned()))),
                _ => Ok((given.clone(), None)),
            };
        }
        Err(error) => return Err(failed("look at the output's folder", given)(error)),
    };
    let own = destination.kind == Kind::Folder;
    match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) if own && can_be_renamed(&folder, parent) => {
            Ok((parent.to_owned(), Some(name.to_owned())))
        }
        _ => Ok((folder, None)),
    }
}

fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn can_be_renamed(folder: &Path, parent: &Path) -> bool {
    let stands_inside = std::env::current_dir().is_ok_and(|current| current.starts_with(folder));
    let writable = accessat(CWD, parent, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    !stands_inside && writable && mount(folder) == mount(parent)
}

/// What tells mounts apart: the mount's number, which a bind mount has to itself; else the device.
fn mount(path: &Path) -> Option<u64> {
    match statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID) {
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Some(found.stx_mnt_id),
        _ => fs::metadata(path).ok().map(|meta| meta.dev()),
    }
}

/// Creates a folder and its missing parents.
fn make_folders(folder: &Path) -> Result<Made> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.is_dir()).collect();
    let mut made = Made::default();
    for path in missing.into_iter().rev() {
        match fs::create_dir(path) {
            Ok(()) => made.0.push(path.to_owned()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
                return Err(in_the_way(path, "not a folder", "one"));
            }
            Err(error) => return Err(failed("create the output's folder", path)(error)),
        }
    }
    Ok(made)
}

/// Makes a stage and locks it. A recovering run may take the new folder for an abandoned one in the moment
/// before it is locked, and remove it: then another is made.
fn claim(parent: &Path) -> Result<(PathBuf, File)> {
    const ATTEMPTS: usize = 64;
    let cannot = || failed("create a staging folder in", parent);
    for _ in 0..ATTEMPTS {
        let root = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(12)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(cannot())?
            .keep();
        fault::reach("stage-created").inspect_err(|_| drop(remove(&root)))?;
        match lock(&root, WithoutLocks::Own) {
            Ok(None) => continue,
            Ok(Some(lock)) => {
                fault::reach("stage-locked").inspect_err(|_| drop(remove(&root)))?;
                return Ok((root, lock));
            }
            Err(error) => {
                let _ = remove(&root);
                return Err(cannot()(error));
            }
        }
    }
    Err(Error::transient("other runs keep removing the staging folder").file(parent.display().to_string()))
}

/// What an attempt to lock means on a file system that has no locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutLocks {
    /// The stage is our own new one: go on.
    Own,
    /// It may be anyone's: leave it.
    Leave,
}

/// Takes the lock of a stage; none if another run has it, or has removed the stage meanwhile.
///
/// What counts is the file that is linked as `lock` *after* it has been locked: a run that removes a stage
/// unlinks its lock file last of all, while it holds it.
pub(crate) fn lock(root: &Path, without: WithoutLocks) -> io::Result<Option<File>> {
    let path = root.join(LOCK);
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits();
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow.cast_signed())
        .open(&path);
    let file = match open {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) if lacks_locks(&error) => {
            return Ok((without == WithoutLocks::Own).then_some(file));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let held = file.metadata()?;
    let linked = stat(&path)?;
    let same = linked.is_some_and(|linked| (linked.dev(), linked.ino()) == (held.dev(), held.ino()));
    Ok(same.then_some(file))
}

fn lacks_locks(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL];
    codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

/// Removes a stage whose lock is held. Its record goes first: nobody may finish a commit from files that are
/// half removed. The lock file goes last, so that it protects the rest to the end. A run that locks the empty
/// folder in the moment before it goes keeps it: a folder with a file in it stays.
pub(crate) fn remove(root: &Path) -> io::Result<()> {
    record::remove(root)?;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() { remove_tree(&entry.path())? } else { fs::remove_file(entry.path())? }
    }
    remove_if_there(&root.join(LOCK))?;
    match fs::remove_dir(root) {
        Err(error) if error.kind() != ErrorKind::NotFound && error.kind() != ErrorKind::DirectoryNotEmpty => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Whether a folder entry is a stage, by its name.
pub(crate) fn is_stage(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// The folders that may hold stages of earlier runs into the same destination.
pub(crate) fn places(destination: &Destination) -> Result<Vec<PathBuf>> {
    let (parent, whole) = locate(destination)?;
    let inside = whole.map(|name| parent.join(name));
    let outside = parent.parent().filter(|_| inside.is_none() && destination.kind == Kind::Folder);
    let outside = outside.map(Path::to_owned);
    Ok([Some(parent), inside, outside].into_iter().flatten().filter(|path| path.is_dir()).collect())
}

/// Where the files of a stage lie.
pub(crate) fn new_folder(root: &Path) -> PathBuf {
    root.join(NEW)
}

/// Whether a name stays in the folder that it is relative to.
///
/// # Errors
/// Usage: names come from plans that have been checked, or from sidecars of the input.
pub(crate) fn check_relative(name: &str) -> Result<()> {
    let normal = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if normal && !name.is_empty() && !name.contains("//") && !name.ends_with('/') && !name.contains('\0') {
        return Ok(());
    }
    Err(Error::usage("an output's name leaves its folder").found(format!("{name:?}")))
}
