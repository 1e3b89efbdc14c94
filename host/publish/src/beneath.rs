//! Names below a folder. Symbolic links in the path that the user typed are followed. Below that
//! path, a different user may create a link at any time. The kernel must therefore not follow links
//! there, and every operation on a name uses the open folder that contains the name.

use crate::disk::{At, failed, in_the_way};
use crate::platform::{FOLDER, follow};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_sdk::Result;

/// An open folder. Changes to its path after it was opened have no effect.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    folder: OwnedFd,
    /// The path by which the folder was opened, for messages.
    pub path: PathBuf,
}

impl OpenFolder {
    /// Opens a folder that is not a link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { folder: open(path, FOLDER | OFlags::NOFOLLOW, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens a folder by its relative path without following links.
    pub(crate) fn below(&self, way: &Path) -> io::Result<OwnedFd> {
        Ok(open_below(self.folder.try_clone()?, way)?)
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.folder.try_clone()?).metadata()
    }
}

/// A name below a folder. The lookup of the name does not follow links.
#[derive(Debug)]
pub struct Place {
    /// The open folder that contains the name; `None` if that folder does not exist.
    folder: Option<OwnedFd>,
    name: PathBuf,
    /// The complete path, for messages.
    pub path: PathBuf,
}

impl Place {
    /// Finds `name` below `top`. The name must not contain `..`, and need not exist.
    pub fn find(top: &Path, name: &Path) -> Result<Self> {
        let way = name.parent().unwrap_or(Path::new(""));
        let folder = match open(top, FOLDER, Mode::empty()).and_then(|top| open_below(top, way)) {
            Ok(folder) => Some(folder),
            Err(Errno::NOENT) => None,
            Err(Errno::LOOP) => return Err(in_the_way(&top.join(way), "below a symbolic link", "a folder")),
            Err(Errno::NOTDIR) => return Err(in_the_way(&top.join(way), "not a folder", "one")),
            Err(error) => return Err(failed("open the output's folder", &top.join(way))(error.into())),
        };
        let last = name.file_name().unwrap_or(OsStr::new("."));
        Ok(Self { folder, name: last.into(), path: top.join(name) })
    }

    pub fn at(&self) -> io::Result<At<'_>> {
        let folder = self.folder.as_ref().ok_or(ErrorKind::NotFound)?;
        Ok(At { folder: folder.as_fd(), name: &self.name })
    }

    /// Returns the metadata of the entry with this name, or `None` if the name does not exist.
    pub fn stat(&self) -> io::Result<Option<Metadata>> {
        self.at().map_or(Ok(None), At::stat)
    }

    /// Returns the identity of the entry with this name, or `None` if the name does not exist.
    pub fn identity(&self) -> io::Result<Option<FileIdentity>> {
        Ok(self.stat()?.as_ref().map(FileIdentity::of))
    }

    pub(crate) fn make_folder(&self) -> io::Result<()> {
        let At { folder, name } = self.at()?;
        Ok(mkdirat(folder, name, Mode::from_raw_mode(0o777))?)
    }

    /// Removes a file. A missing file is not an error.
    pub fn remove(&self) -> io::Result<()> {
        match self.at() {
            Ok(at) => at.remove_if_there(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn remove_folder(&self) -> io::Result<()> {
        let At { folder, name } = self.at()?;
        Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }
}

/// Opens the folder at the relative path `way` below `top` without following links.
fn open_below(top: OwnedFd, way: &Path) -> rustix::io::Result<OwnedFd> {
    if way.as_os_str().is_empty() { Ok(top) } else { follow(top, way) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::platform::walk;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_is_followed_on_either_way() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        fs::create_dir_all(home.join("top/a/b")).unwrap();
        fs::create_dir(home.join("elsewhere")).unwrap();
        fs::write(home.join("top/a/file"), "").unwrap();
        symlink("../../elsewhere", home.join("top/a/out")).unwrap();
        symlink("b", home.join("top/a/in")).unwrap();
        symlink("top", home.join("typed")).unwrap();
        for follow in [open_below, walk] {
            let leads = |way: &str| {
                let top = open(home.join("typed"), FOLDER, Mode::empty()).unwrap();
                follow(top, Path::new(way)).map(|folder| File::from(folder).metadata().unwrap().is_dir())
            };
            assert_eq!(leads("a/b"), Ok(true));
            assert_eq!(leads("a/none"), Err(Errno::NOENT));
            for way in ["a/out", "a/in", "a/in/x", "a/file"] {
                assert!(matches!(leads(way), Err(Errno::LOOP | Errno::NOTDIR)), "{way}");
            }
        }
    }

    #[test]
    fn a_place_is_used_where_it_was_found() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let find = |name: &str| Place::find(home, Path::new(name)).unwrap();
        assert!(find("a/x").stat().unwrap().is_none());
        assert_eq!(find("a/x").make_folder().unwrap_err().kind(), ErrorKind::NotFound);
        find("a").make_folder().unwrap();
        fs::write(home.join("a/x"), "1").unwrap();
        let found = find("a/x");
        // A link that replaces the folder later has no effect.
        fs::create_dir(home.join("victim")).unwrap();
        fs::write(home.join("victim/x"), "mine").unwrap();
        fs::rename(home.join("a"), home.join("moved")).unwrap();
        symlink("victim", home.join("a")).unwrap();
        assert_eq!(found.stat().unwrap().unwrap().len(), 1);
        found.remove().unwrap();
        found.remove().unwrap();
        assert!(!home.join("moved/x").exists() && home.join("victim/x").exists());
        let refused = Place::find(home, Path::new("a/x")).unwrap_err().to_string();
        assert!(refused.contains("link") || refused.contains("not a folder"), "{refused}");
        find("moved").remove_folder().unwrap();
    }
}
