//! The location of a stage: next to the output, or within the output's own folder.

use super::{ATTEMPTS, Destination, DestinationKind};
use crate::disk::{failed, in_the_way, stat};
use crate::platform::mount;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tensorferry_sdk::Result;

/// The location of a stage and of its output.
#[derive(Debug)]
pub struct Site {
    /// The folder that contains the stage.
    pub parent: PathBuf,
    /// The name of the output folder in `parent`, if the whole folder is renamed. `None` if the
    /// files are moved to `parent`.
    pub whole: Option<OsString>,
    /// The output's folder as the user named it, for messages.
    pub shown: PathBuf,
    /// The parent folders that were missing and were created.
    pub made: CreatedFolders,
}

impl Site {
    pub(super) fn make(destination: &Destination) -> Result<Self> {
        let (parent, whole) = locate(destination)?;
        let made = make_folders(&parent)?;
        Ok(Self { parent, whole, shown: destination.folder.clone(), made })
    }
}

/// Returns the folder for the stage. If the output folder can be renamed as a whole, also returns
/// the output folder's name in the stage's folder. Links in the part of the path that exists are
/// resolved.
///
/// The stage of an output folder is next to it, so that one rename commits the folder. In some
/// cases, the stage is inside the output folder, and the files are renamed one by one. The output
/// folder cannot be renamed if a different file system is mounted there, or if its parent is not
/// writable. The folder is not renamed if it is the working directory of a shell, because the shell
/// would remain in a removed folder.
fn locate(destination: &Destination) -> Result<(PathBuf, Option<OsString>)> {
    let given = &destination.folder;
    // A folder that disappears before it is examined counts as missing.
    let there = fs::canonicalize(given).and_then(|folder| Ok((fs::metadata(&folder)?.is_dir(), folder)));
    let folder = match there {
        Ok((true, folder)) => folder,
        Ok((false, _)) => return Err(in_the_way(given, "not a folder", "one")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let found = stat(given).map_err(failed("examine the output's folder", given))?;
            // If this entry is not a link, it is a folder that another run has just created. The
            // code below handles that case.
            if found.is_some_and(|found| found.is_symlink()) {
                return Err(in_the_way(given, "a dangling symbolic link", "a folder"));
            }
            return match (&destination.kind, given.parent(), given.file_name()) {
                (DestinationKind::Folder, Some(parent), Some(name)) => {
                    Ok((resolved(parent), Some(name.to_owned())))
                }
                _ => Ok((given.clone(), None)),
            };
        }
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(in_the_way(given, "below a file", "a folder"));
        }
        Err(error) => return Err(failed("examine the output's folder", given)(error)),
    };
    let own = destination.kind == DestinationKind::Folder;
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
    let is_on_its_mount = || mount(folder).is_some_and(|own| mount(parent) == Some(own));
    !stands_inside && writable && is_on_its_mount()
}

/// Creates a folder and its missing parents, outermost first. Other runs that end without an output
/// may at any moment remove folders that they created. In that case, the folders are created again.
fn make_folders(folder: &Path) -> Result<CreatedFolders> {
    let (mut made, mut attempts) = (CreatedFolders::default(), 0);
    while let Some(path) = folder.ancestors().take_while(|path| !path.is_dir()).last() {
        let Err(error) = fs::create_dir(path) else {
            made.0.push(path.to_owned());
            continue;
        };
        attempts += 1;
        let in_its_place = path.symlink_metadata().is_ok_and(|found| !found.is_dir());
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::AlreadyExists if !in_its_place && attempts < ATTEMPTS => {}
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                return Err(in_the_way(path, "not a folder", "one"));
            }
            _ => return Err(failed("create the output's folder", path)(error)),
        }
    }
    Ok(made)
}

/// Returns the folders that may contain the stages of earlier runs with the same destination.
pub fn places(destination: &Destination) -> Result<Vec<PathBuf>> {
    let (parent, whole) = locate(destination)?;
    let inside = whole.map(|name| parent.join(name));
    let outside = parent.parent().filter(|_| inside.is_none() && destination.kind == DestinationKind::Folder);
    let outside = outside.map(Path::to_owned);
    Ok([Some(parent), inside, outside].into_iter().flatten().filter(|path| path.is_dir()).collect())
}

/// Folders created for an output, outermost first. When this value is dropped, the folders that are
/// still empty are removed.
#[derive(Debug, Default)]
pub struct CreatedFolders(pub Vec<PathBuf>);

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // This call fails, as intended, if the folder is not empty.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn site(folder: &Path, kind: DestinationKind) -> (PathBuf, Option<OsString>) {
        locate(&Destination { folder: folder.to_owned(), kind }).unwrap()
    }

    #[test]
    fn the_stage_is_beside_the_output_or_within_a_folder_that_cannot_be_renamed() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let named = || DestinationKind::Beside { name: "model".to_owned() };
        assert_eq!(site(&home, named()), (home.clone(), None));
        assert_eq!(site(&home.join("a/b"), named()), (home.join("a/b"), None));
        assert_eq!(site(&home.join("a/b"), DestinationKind::Folder), (home.join("a"), Some("b".into())));
        fs::create_dir(home.join("here")).unwrap();
        assert_eq!(site(&home.join("here"), DestinationKind::Folder), (home.clone(), Some("here".into())));
        // `/proc` is a separate mount on every system that the tests run on.
        assert_eq!(site(Path::new("/proc"), DestinationKind::Folder), ("/proc".into(), None));
        assert_eq!(site(Path::new("/"), DestinationKind::Folder), ("/".into(), None));
    }
}
