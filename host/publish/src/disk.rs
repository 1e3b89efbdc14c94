//! File system calls of a commit, with fallbacks for calls that a file system does not support.

use crate::platform::{self, FOLDER};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid, linkat, open, openat, renameat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_sdk::Error;

/// Assumed capabilities of the file system. If a call turns out to be unsupported, a fallback is
/// used instead. Tests disable capabilities to test the fallbacks.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    pub(crate) noreplace: bool,
    /// Whether folders can be exchanged with `RENAME_EXCHANGE`.
    pub exchange: bool,
    pub links: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self { noreplace: true, exchange: true, links: true }
    }
}

impl Disk {
    /// Renames a file to a free name. Returns an `AlreadyExists` error if the name is taken.
    ///
    /// Some file systems cannot check the name and rename the file in one call. In that case, a
    /// hard link is created first, and `from` and `to` are briefly the same file. If hard links are
    /// not supported either, the name is checked before the rename. A file that is created between
    /// the check and the rename is then lost.
    pub(crate) fn rename_new(self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        if self.noreplace {
            match renameat_with(from.folder, from.name, to.folder, to.name, RenameFlags::NOREPLACE) {
                // Older kernels and sandboxes return these errors for unknown calls.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
                done => return Ok(done?),
            }
        }
        if self.links {
            match linkat(from.folder, from.name, to.folder, to.name, AtFlags::empty()) {
                Ok(()) => return from.remove(),
                Err(Errno::EXIST) => return Err(ErrorKind::AlreadyExists.into()),
                Err(_) => {}
            }
        }
        match to.stat()? {
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
            None => Self::rename(from, to),
        }
    }

    /// Renames a file. If a file with the new name exists, it is replaced.
    pub fn rename(from: At<'_>, to: At<'_>) -> io::Result<()> {
        Ok(renameat(from.folder, from.name, to.folder, to.name)?)
    }

    pub fn exchange(self, one: At<'_>, other: At<'_>) -> io::Result<()> {
        if !self.exchange {
            return Err(Errno::INVAL.into());
        }
        Ok(renameat_with(one.folder, one.name, other.folder, other.name, RenameFlags::EXCHANGE)?)
    }

    /// Creates a hard link. If the source is a symbolic link, creates a hard link to the link
    /// itself.
    pub fn link(self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        if !self.links {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(linkat(from.folder, from.name, to.folder, to.name, AtFlags::empty())?)
    }
}

/// A name in an open folder.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    pub folder: BorrowedFd<'a>,
    pub name: &'a Path,
}

impl<'a> From<&'a Path> for At<'a> {
    /// Converts a path to a name that is resolved relative to the working directory, as in system
    /// calls.
    fn from(path: &'a Path) -> Self {
        Self { folder: CWD, name: path }
    }
}

impl At<'_> {
    /// Returns the metadata without following a link, or `None` if the name does not exist.
    pub(crate) fn stat(self) -> io::Result<Option<Metadata>> {
        found(platform::stat(self.folder, self.name))
    }

    pub(crate) fn remove(self) -> io::Result<()> {
        Ok(unlinkat(self.folder, self.name, AtFlags::empty())?)
    }

    /// Removes a file. A missing file is not an error.
    pub(crate) fn remove_if_there(self) -> io::Result<()> {
        match self.remove() {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the identity of the file at `path` without following symbolic links, or `None` if the
/// file does not exist.
pub fn identity(path: &Path) -> io::Result<Option<FileIdentity>> {
    Ok(stat(path)?.as_ref().map(FileIdentity::of))
}

/// Returns the metadata of the entry at `path` without following symbolic links, or `None` if the
/// entry does not exist.
pub fn stat(path: &Path) -> io::Result<Option<Metadata>> {
    found(fs::symlink_metadata(path))
}

/// Converts the error for a name that does not exist to `None`.
fn found(stat: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match stat {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        stat => stat.map(Some),
    }
}

/// Returns the content of a small file that ferry wrote, or `None` if the file does not exist.
/// Returns an error for anything else at the path (a link, a pipe, a larger file). The call never
/// blocks.
pub(crate) fn read_own(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened?),
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > most {
        let found = if meta.is_file() { "too long" } else { "not a regular file" };
        return Err(io::Error::new(ErrorKind::InvalidData, found));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Removes a file. A missing file is not an error.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    At::from(path).remove_if_there()
}

/// Sets the owner and the mode of a new folder to those of `model`, the folder that it replaces.
pub fn adopt(folder: &OwnedFd, model: &Metadata) -> io::Result<()> {
    let own = metadata(folder)?;
    if (own.uid(), own.gid()) != (model.uid(), model.gid()) {
        let (owner, group) = (Uid::from_raw(model.uid()), Gid::from_raw(model.gid()));
        platform::change_owner(folder, owner, group)?;
    }
    set_mode(folder, model.mode() & 0o7777)
}

pub fn metadata(folder: &OwnedFd) -> io::Result<Metadata> {
    File::from(folder.try_clone()?).metadata()
}

/// Reopens a folder that was opened only as a path, so that the folder can be listed or synced.
pub fn listed(folder: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, ".", flags, Mode::empty())?))
}

fn set_mode(folder: &OwnedFd, mode: u32) -> io::Result<()> {
    let mode = Permissions::from_mode(mode);
    match listed(folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => platform::change_mode(folder, mode),
        folder => folder?.set_permissions(mode),
    }
}

/// Flushes a file's bytes or a folder's names to disk, so that they survive a power failure.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Calls [`sync`] on a folder and on every folder in it.
pub(crate) fn sync_folders(top: &Path) -> io::Result<()> {
    folders(top, |_| Ok(()))?.iter().try_for_each(|folder| sync(folder))
}

/// Removes a folder and its contents, including sub-folders whose mode does not allow changes.
pub(crate) fn remove_tree(top: &Path) -> io::Result<()> {
    match fs::remove_dir_all(top) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            folders(top, |folder| open_to_owner(&open(folder, FOLDER | OFlags::NOFOLLOW, Mode::empty())?))?;
            fs::remove_dir_all(top)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Returns a folder and all folders in it, parents first. Calls `visit` on each folder before
/// listing it. Links are not followed.
fn folders(top: &Path, visit: fn(&Path) -> io::Result<()>) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![top.to_owned()];
    let mut next = 0;
    while let Some(folder) = found.get(next).cloned() {
        next += 1;
        visit(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Changes the mode of a folder so that its owner can list and change it.
pub(crate) fn open_to_owner(folder: &OwnedFd) -> io::Result<()> {
    let mode = metadata(folder)?.mode() & 0o7777;
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    set_mode(folder, mode | 0o700)
}

/// Converts an operating system error into an error that names the failed action and the path.
pub fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::from(error).context(format!("cannot {action}")).file(path.display().to_string())
}

/// The end of the message that [`exists`] returns.
pub const USE_FORCE: &str = " exists; use --force to replace it";

/// Returns the error for an output file that exists and may not be replaced.
pub fn exists(path: &Path) -> Error {
    Error::usage(format!("{}{USE_FORCE}", path.display()))
}

/// Returns the error for an existing path that ferry does not replace, even with `--force`, because
/// the path is not an output file.
pub fn in_the_way(path: &Path, found: &str, needed: &str) -> Error {
    Error::usage(format!("{} is {found}, where the output needs {needed}", path.display()))
        .hint("move it away, or choose a different output path")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const ALL: Disk = Disk { noreplace: true, exchange: true, links: true };

    #[test]
    fn a_name_that_is_taken_is_refused_in_each_way() {
        for disk in [ALL, Disk { noreplace: false, ..ALL }, Disk { noreplace: false, links: false, ..ALL }] {
            let home = tempfile::tempdir().unwrap();
            let (from, to) = (home.path().join("from"), home.path().join("to"));
            fs::write(&from, "new").unwrap();
            fs::write(&to, "old").unwrap();
            let rename = || disk.rename_new(At::from(&*from), At::from(&*to));
            assert_eq!(rename().unwrap_err().kind(), ErrorKind::AlreadyExists, "{disk:?}");
            assert_eq!(fs::read(&to).unwrap(), b"old");
            fs::remove_file(&to).unwrap();
            rename().unwrap();
            assert_eq!(fs::read(&to).unwrap(), b"new");
            assert!(stat(&from).unwrap().is_none());
        }
    }

    #[test]
    fn a_folder_that_forbids_it_is_removed_all_the_same() {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().join("top");
        fs::create_dir_all(top.join("closed/inner")).unwrap();
        fs::write(top.join("closed/inner/file"), "x").unwrap();
        fs::set_permissions(top.join("closed"), Permissions::from_mode(0o500)).unwrap();
        remove_tree(&top).unwrap();
        assert!(stat(&top).unwrap().is_none());
        remove_tree(&top).unwrap();
    }

    #[test]
    fn an_identity_outlives_a_rename_and_not_a_rewrite() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (home.path().join("one"), home.path().join("two"));
        assert_eq!(identity(&one).unwrap(), None);
        fs::write(&one, "x").unwrap();
        let before = identity(&one).unwrap();
        fs::rename(&one, &two).unwrap();
        assert_eq!(identity(&two).unwrap(), before);
        fs::write(&two, "longer").unwrap();
        assert_ne!(identity(&two).unwrap(), before);
    }
}
