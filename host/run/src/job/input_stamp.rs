//! The state of an input, determined without opening a file. The state consists of an approximate
//! size, which distinguishes big jobs from small jobs, and a digest of the files' identities.

use std::path::Path;
use tensorferry::Session;
use tensorferry::places::InputFolder;
use tensorferry::request::FileGroup;
use tensorferry_core::read::folder::{self, EntryKind, FolderEntry};
use tensorferry_sdk::Result;

/// Maximum size of an index in bytes. A bigger file is assumed to be data.
const MAX_INDEX: u64 = 1 << 20;
/// Maximum depth of the subfolders that are examined.
const MAX_DEPTH: usize = 8;

/// The state of an input, based only on the names and metadata of its files.
#[derive(Default)]
pub(crate) struct InputStamp {
    /// The total size in bytes, or 0 if the input cannot be examined.
    pub(crate) bytes: u64,
    hasher: blake3::Hasher,
}

impl InputStamp {
    /// Examines a file, all files in a folder, or all files that belong to an index, a prefix or a
    /// glob.
    pub(super) fn of_path(input: &Path, session: &Session) -> Self {
        let mut stamp = Self::default();
        // If an input cannot be examined, the error is reported later, when the input is opened.
        let _ = stamp.add_input(input, session);
        stamp
    }

    /// Examines the files of a group.
    pub(super) fn of_files(group: &FileGroup, session: &Session) -> Self {
        let mut stamp = Self::default();
        if let Ok(folder) = InputFolder::at(&group.folder, session) {
            group.files.iter().for_each(|name| stamp.add(&folder, name, session));
        }
        stamp
    }

    /// Returns a digest that depends on the files' names, lengths and modification times. The
    /// digest is the same on every machine, because it does not include inodes.
    pub(crate) fn digest(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    fn add_input(&mut self, input: &Path, session: &Session) -> Result<()> {
        let whole = InputFolder::at(input, session)?;
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        let prefix = match (whole.kind("")?, name.split_once(".index")) {
            (Some(EntryKind::Folder), _) => return self.add_folder(&whole, "", 0, session),
            (Some(_), Some((stem, _))) if whole.len("") < MAX_INDEX => stem.split('.').next().unwrap_or(stem),
            (Some(_), _) => {
                self.add(&whole, "", session);
                return Ok(());
            }
            // For a common prefix or a glob, the size includes all files whose names begin with the
            // same prefix.
            (None, _) => name.split(['*', '?', '[', '{']).next().unwrap_or_default(),
        };
        let folder = InputFolder::at(input.parent().unwrap_or(Path::new(".")), session)?;
        for entry in folder.entries("", prefix, session.limits.entries)? {
            if entry.kind == EntryKind::File {
                self.add_entry(&folder, &entry, session);
            }
        }
        Ok(())
    }

    fn add_folder(
        &mut self,
        folder: &InputFolder,
        name: &str,
        depth: usize,
        session: &Session,
    ) -> Result<()> {
        for entry in folder.entries(name, "", u64::MAX)? {
            match entry.kind {
                EntryKind::File => self.add_entry(folder, &entry, session),
                EntryKind::Folder if depth < MAX_DEPTH => {
                    let _ = self.add_folder(folder, &entry.name, depth + 1, session);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds an entry of a folder. For a remote folder, uses the metadata in the folder listing.
    /// Requesting the metadata of each file would take as long as reading the files.
    fn add_entry(&mut self, folder: &InputFolder, entry: &FolderEntry, session: &Session) {
        match entry.len {
            Some(len) if !folder.is_local() => self.add_facts(&entry.name, len, &[]),
            _ => self.add(folder, &entry.name, session),
        }
    }

    fn add(&mut self, folder: &InputFolder, name: &str, session: &Session) {
        let path = if name.is_empty() { folder.path().to_owned() } else { folder.path_of(name) };
        match folder::identity(&path, session) {
            Ok(identity) if !folder.is_local() => {
                self.add_facts(name, identity.len, &[identity.inode.cast_signed()]);
            }
            Ok(identity) => {
                let (seconds, nanoseconds) = identity.modified;
                self.add_facts(name, identity.len, &[seconds, nanoseconds]);
            }
            Err(_) => self.add_facts(name, 0, &[]),
        }
    }

    fn add_facts(&mut self, name: &str, len: u64, facts: &[i64]) {
        self.bytes += len;
        self.hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        self.hasher.update(&len.to_le_bytes());
        for fact in facts {
            self.hasher.update(&fact.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_itself_and_an_index_is_its_files() {
        let home = tempfile::tempdir().unwrap();
        for (name, len) in [("a.pt", 5), ("a.pt.txt", 7), ("b.index", 1), ("b.data-00000-of-00001", 9)] {
            fs::write(home.path().join(name), vec![0; len]).unwrap();
        }
        let stamp = |name: &str| InputStamp::of_path(&home.path().join(name), &Session::default());
        assert_eq!([stamp("a.pt").bytes, stamp("b.index").bytes, stamp("b").bytes], [5, 10, 10]);
        assert_eq!(stamp("b.data-[0-9]*-of-00001").bytes, 9);
        let before = stamp("a.pt").digest();
        assert_eq!(stamp("a.pt").digest(), before);
        fs::write(home.path().join("a.pt"), [0; 6]).unwrap();
        assert_ne!(stamp("a.pt").digest(), before);
    }
}
