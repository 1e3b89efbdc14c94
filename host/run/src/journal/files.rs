//! A stamped file is the state of a file when a run read or wrote it. A later run compares this
//! state with the file on disk.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use tensorferry::Session;
use tensorferry::places::{InputFolder, is_url};
use tensorferry_core::read::folder::{self, EntryKind, FolderEntry};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::disk;
use tensorferry_sdk::ErrorKind;

/// First character of the names of ferry's own temporary folders, which
/// [`tensorferry_publish::stage`] creates.
const HIDDEN: char = '.';

/// Value for an inode number that is unknown on this machine. No file has this inode number.
const UNKNOWN_INODE: u64 = u64::MAX;

/// The path of a file, with the length, modification time and inode that identify its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StampedFile {
    pub(crate) path: PathBuf,
    #[serde(flatten)]
    pub(crate) identity: FileIdentity,
}

impl StampedFile {
    /// Returns the file as seen from a different machine, where its inode number is unknown.
    pub(crate) fn without_inode(&self) -> Self {
        let is_local = !self.path.to_str().is_some_and(is_url);
        let inode = if is_local { UNKNOWN_INODE } else { self.identity.inode };
        Self { path: self.path.clone(), identity: FileIdentity { inode, ..self.identity } }
    }

    /// Follows links, and checks that an input file is unchanged. The error describes the change.
    pub(crate) fn check_input(&self, session: &Session) -> Result<(), String> {
        match folder::identity(&self.path, session) {
            Ok(identity) => self.compare(identity, "changed"),
            Err(error) => Err(format!("{} cannot be examined: {error}", self.path.display())),
        }
    }

    /// Checks that an output file is unchanged. Does not follow links. The error describes the
    /// change. If a run ended early, it may have recorded only the length of an object in a store.
    /// In this case, only the length is compared.
    pub(crate) fn check_output(&self, session: &Session) -> Result<(), String> {
        match output_identity(&self.path, session) {
            Ok(Some(identity)) if self.identity.is_of_len_alone() => self.compare(
                FileIdentity { len: identity.len, ..self.identity },
                "was modified after it was written",
            ),
            Ok(Some(identity)) => self.compare(identity, "was modified after it was written"),
            Ok(None) => Err(format!("{} is gone", self.path.display())),
            Err(error) => Err(format!("{} cannot be examined: {error}", self.path.display())),
        }
    }

    /// Returns the current state of an output file, or the recorded state if the file cannot be
    /// examined.
    pub(crate) fn seen(&self, session: &Session) -> Self {
        let seen = output_identity(&self.path, session).ok().flatten();
        Self { path: self.path.clone(), identity: seen.unwrap_or(self.identity) }
    }

    fn compare(&self, now: FileIdentity, verb: &str) -> Result<(), String> {
        let old = self.identity;
        let what = if now.len != old.len {
            format!("{} bytes, were {}", now.len, old.len)
        } else if now.modified != old.modified {
            "different modification time".to_owned()
        } else if now.inode != old.inode && old.inode != UNKNOWN_INODE {
            "a different file with this name".to_owned()
        } else {
            return Ok(());
        };
        Err(format!("{} {verb} ({what})", self.path.display()))
    }
}

/// Returns the identity of the file at an output's path or URL, or `None` if the file does not
/// exist.
pub(crate) fn output_identity(
    path: &Path,
    session: &Session,
) -> tensorferry_sdk::Result<Option<FileIdentity>> {
    if !path.to_str().is_some_and(is_url) {
        return Ok(disk::identity(path)?);
    }
    match folder::identity(path, session) {
        Ok(identity) => Ok(Some(identity)),
        Err(error) if error.kind() == ErrorKind::Malformed => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a digest of the names in a folder and its subfolders. Hidden names and the paths in
/// `without` are not included. Returns `None` if the input is not a folder.
pub(crate) fn list_names(input: &Path, without: &HashSet<&Path>, session: &Session) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    for name in names_below(input, without, session)? {
        hasher.update(name.as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
    }
    Some(hasher.finalize().to_hex()[..32].to_owned())
}

/// Returns the names that [`list_names`] covers, sorted.
pub(crate) fn names_below(input: &Path, without: &HashSet<&Path>, session: &Session) -> Option<Vec<PathBuf>> {
    let folder = InputFolder::at(input, session).ok()?;
    if folder.kind("").ok()? != Some(EntryKind::Folder) {
        return None;
    }
    let mut names = Vec::new();
    let mut open = vec![String::new()];
    while let Some(next) = open.pop() {
        for FolderEntry { name, kind, is_link, .. } in folder.entries(&next, "", u64::MAX).ok()? {
            let path = folder.path_of(&name);
            let is_hidden = name.rsplit('/').next().is_some_and(|own| own.starts_with(HIDDEN));
            if kind == EntryKind::Folder && !is_link {
                // A folder that was created for the output does not belong to the input.
                if !is_hidden && !without.iter().any(|output| output.starts_with(&path)) {
                    open.push(name);
                }
            } else if !without.contains(&*path) {
                names.push(PathBuf::from(name));
            }
        }
    }
    names.sort();
    Some(names)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::fs;

    #[test]
    fn a_listing_is_of_the_input_s_names_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        fs::create_dir(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/a"), "x").unwrap();
        let list = |folder: &Path, without| list_names(folder, &without, &Session::default());
        let before = list(folder, HashSet::new()).unwrap();
        fs::write(folder.join("sub/a"), "other").unwrap();
        fs::create_dir(folder.join(".ferry-stage-x")).unwrap();
        assert_eq!(list(folder, HashSet::new()).unwrap(), before);
        let output = folder.join("out/b");
        fs::create_dir(folder.join("out")).unwrap();
        fs::write(&output, "x").unwrap();
        assert_ne!(list(folder, HashSet::new()).unwrap(), before);
        assert_eq!(list(folder, HashSet::from([&*output])).unwrap(), before);
        assert_eq!(list(&output, HashSet::new()), None);
    }

    #[test]
    fn a_file_is_told_from_another_of_its_name() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        fs::write(&path, "abc").unwrap();
        let file =
            StampedFile { identity: FileIdentity::of(&fs::metadata(&path).unwrap()), path: path.clone() };
        let session = Session::default();
        file.check_output(&session).unwrap();
        fs::write(&path, "abcd").unwrap();
        assert!(file.check_output(&session).unwrap_err().contains("4 bytes, were 3"));
        assert!(file.check_input(&session).unwrap_err().contains("changed"));
        fs::remove_file(&path).unwrap();
        assert!(file.check_output(&session).unwrap_err().contains("is gone"));
    }
}
