//! The lock of a stage. A run holds the lock of its stage until the run ends, so a stage whose lock
//! is free is abandoned.

use super::proof::{self, PROOF};
use super::site::Site;
use super::{ATTEMPTS, Destination, LOCK, area};
use crate::disk::{failed, remove_if_there, remove_tree, stat};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tensorferry_core::context::fault;
use tensorferry_sdk::{Error, Result};

/// Creates and locks a stage for a destination, and creates missing folders. Meanwhile, other runs
/// may remove the new stage, which looks abandoned until it is locked. Other runs may also remove
/// the staging area or empty folders. In these cases, the function tries again.
pub(super) fn claim(destination: &Destination) -> Result<(Site, PathBuf, File)> {
    for attempt in 1..=ATTEMPTS {
        let site = Site::make(destination)?;
        let cannot = || failed("create a staging folder", &site.parent);
        let made = area::make(&site.parent).and_then(|area| {
            let permissions = Permissions::from_mode(0o700);
            tempfile::Builder::new().prefix("").rand_bytes(12).permissions(permissions).tempdir_in(area)
        });
        let root = match made {
            Err(error) if error.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => continue,
            made => made.map_err(cannot())?.keep(),
        };
        fault::reach("stage-created").inspect_err(|_| drop(remove(&root)))?;
        match lock(&root, WithoutLocks::Own) {
            Ok(None) => continue,
            Ok(Some(lock)) => {
                fault::reach("stage-locked").inspect_err(|_| drop(remove(&root)))?;
                proof::write(&root).inspect_err(|_| drop(remove(&root)))?;
                return Ok((site, root, lock));
            }
            Err(error) => {
                let _ = remove(&root);
                return Err(cannot()(error));
            }
        }
    }
    let folder = destination.folder.display().to_string();
    Err(Error::transient("other runs keep removing the staging folder").file(folder))
}

/// The treatment of a stage on a file system without locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutLocks {
    /// This run has just created the stage, and continues without a lock.
    Own,
    /// The stage may belong to another run, and is not changed.
    Leave,
}

/// Locks a stage. Returns `None` if another run holds the lock or has just removed the stage.
///
/// After the file has been locked, the name `lock` must still lead to the same file. A run that
/// removes a stage holds the lock and unlinks the lock file last.
pub fn lock(root: &Path, without: WithoutLocks) -> io::Result<Option<File>> {
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

/// Returns whether a lock failed because the file system or a sandbox does not support locks, such
/// as Lustre without `-o flock`.
pub fn lacks_locks(error: &io::Error) -> bool {
    let codes = [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL, Errno::PERM];
    codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

/// Removes a stage whose lock is held. The record is removed first, so that no run finishes a
/// commit whose files are partly removed. The proof and the lock file are removed last, so that
/// they protect the other files until then. If another run locks the empty folder just before it is
/// removed, the removal fails because the folder contains a lock file.
pub fn remove(root: &Path) -> io::Result<()> {
    remove_if_there(&root.join(super::RECORD))?;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name() == LOCK || entry.file_name() == PROOF {
            continue;
        }
        if entry.file_type()?.is_dir() { remove_tree(&entry.path())? } else { fs::remove_file(entry.path())? }
    }
    remove_if_there(&root.join(PROOF))?;
    remove_if_there(&root.join(LOCK))?;
    match fs::remove_dir(root) {
        Err(error) if error.kind() != ErrorKind::NotFound && error.kind() != ErrorKind::DirectoryNotEmpty => {
            return Err(error);
        }
        _ => area::remove_of(root),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::stage::{Destination, DestinationKind, Stage};

    /// Jobs of one run create the same missing folders, and failed jobs remove these folders again.
    #[test]
    fn runs_that_make_and_remove_the_same_folders_do_not_disturb_each_other() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap().join("a/b/c");
        let begin_and_end = |name: &str| {
            for _ in 0..100 {
                let kind = DestinationKind::Beside { name: name.to_owned() };
                drop(Stage::begin(&Destination { folder: folder.clone(), kind }).unwrap());
            }
        };
        std::thread::scope(|threads| {
            for name in ["x", "y", "z"] {
                threads.spawn(move || begin_and_end(name));
            }
        });
    }
}
