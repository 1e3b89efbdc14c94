//! What is found on the disk is compared with what a run found or left there.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use tensorferry::engine::read::identity::FileIdentity;

/// How the names of ferry's own temporary folders start; see [`tensorferry::engine::publish::stage`].
const HIDDEN: char = '.';

/// A file, and what told it from any other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Where.
    pub path: PathBuf,
    /// What.
    #[serde(flatten)]
    pub identity: FileIdentity,
}

impl Placed {
    /// Whether an input file is still what it was; in words, what it is now if not. Links are followed.
    pub(super) fn check_input(&self) -> Result<(), String> {
        match fs::metadata(&self.path) {
            Ok(meta) => self.compare(FileIdentity::of(&meta), "changed"),
            Err(error) => Err(format!("{} cannot be looked at: {error}", self.path.display())),
        }
    }

    /// The same of an output file, which is no link.
    pub(super) fn check_output(&self) -> Result<(), String> {
        match tensorferry::engine::publish::disk::identity(&self.path) {
            Ok(Some(identity)) => self.compare(identity, "is not what was written"),
            Ok(None) => Err(format!("{} is gone", self.path.display())),
            Err(error) => Err(format!("{} cannot be looked at: {error}", self.path.display())),
        }
    }

    fn compare(&self, now: FileIdentity, verb: &str) -> Result<(), String> {
        let old = self.identity;
        let what = if now.len != old.len {
            format!("{} bytes, were {}", now.len, old.len)
        } else if now.modified != old.modified {
            "another time of modification".to_owned()
        } else if now.inode != old.inode {
            "another file of this name".to_owned()
        } else {
            return Ok(());
        };
        Err(format!("{} {verb} ({what})", self.path.display()))
    }
}

/// A digest of the names below a folder, hidden ones and `without` left out; none if it is no folder.
pub(super) fn listing(folder: &Path, without: &HashSet<&Path>) -> Option<String> {
    if !folder.is_dir() {
        return None;
    }
    let mut names = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).ok()?.flatten() {
            let path = entry.path();
            let is_hidden = entry.file_name().to_string_lossy().starts_with(HIDDEN);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // A folder that was made for the output alone is none of the input's.
                if !is_hidden && !without.iter().any(|output| output.starts_with(&path)) {
                    open.push(path);
                }
            } else if !without.contains(&*path) {
                names.push(path);
            }
        }
    }
    names.sort();
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(name.strip_prefix(folder).unwrap_or(&name).as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
    }
    Some(hasher.finalize().to_hex()[..32].to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_listing_is_of_the_input_s_names_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        fs::create_dir(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/a"), "x").unwrap();
        let before = listing(folder, &HashSet::new()).unwrap();
        fs::write(folder.join("sub/a"), "other").unwrap();
        fs::create_dir(folder.join(".ferry-stage-x")).unwrap();
        assert_eq!(listing(folder, &HashSet::new()).unwrap(), before);
        let output = folder.join("out/b");
        fs::create_dir(folder.join("out")).unwrap();
        fs::write(&output, "x").unwrap();
        assert_ne!(listing(folder, &HashSet::new()).unwrap(), before);
        assert_eq!(listing(folder, &HashSet::from([&*output])).unwrap(), before);
        assert_eq!(listing(&output, &HashSet::new()), None);
    }

    #[test]
    fn a_file_is_told_from_another_of_its_name() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        fs::write(&path, "abc").unwrap();
        let placed = Placed { identity: FileIdentity::of(&fs::metadata(&path).unwrap()), path: path.clone() };
        placed.check_output().unwrap();
        fs::write(&path, "abcd").unwrap();
        assert!(placed.check_output().unwrap_err().contains("4 bytes, were 3"));
        assert!(placed.check_input().unwrap_err().contains("changed"));
        fs::remove_file(&path).unwrap();
        assert!(placed.check_output().unwrap_err().contains("is gone"));
    }
}
