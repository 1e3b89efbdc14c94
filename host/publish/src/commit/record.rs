//! The commit record lists the steps of a commit that changes several names, so that the next run
//! can finish an interrupted commit.
//!
//! The record is the file `commit.json` in the locked stage. The file is written under a different
//! name and then renamed, so that it is either complete or missing. The names in the record are
//! relative to the folder that contains the stage, and cannot lead out of that folder.

use crate::disk::{failed, read_own, sync};
use crate::stage::{RECORD, check_relative};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path};
use tensorferry_core::context::fault;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_sdk::{Error, Result};

const UNFINISHED_NAME: &str = "commit.json.part";
const VERSION: u32 = 1;
/// Maximum size of a record in bytes. Each file of the output takes about 300 bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The steps of a commit, and whether each step must survive a power failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    version: u32,
    pub(super) sync: bool,
    pub(super) action: Action,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Action {
    Set(Set),
    Exchange(Exchange),
}

/// A set of files that are renamed one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    /// The target folder; `None` for the folder that contains the stage.
    pub(super) folder: Option<OsString>,
    /// Whether existing files may be replaced.
    pub(super) force: bool,
    /// Whether the old index is removed before the first data file is renamed.
    pub(super) removes_index: bool,
    /// Folders to create in the target folder, parents first.
    pub(super) missing_folders: Vec<String>,
    /// The files, in the order of the renames: data files first, indexes last.
    pub(super) files: Vec<SetFile>,
    /// Receipts of an older set. These receipts are removed before the first new index is renamed
    /// into place.
    #[serde(default)]
    pub(super) old_receipts: Vec<StaleFile>,
    /// Files of an older set, indexes first. These files are removed once the new set is in place.
    #[serde(default)]
    pub(super) stale: Vec<StaleFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StaleFile {
    pub(super) name: String,
    /// The identity of the file under this name when the record was written.
    pub(super) old: FileIdentity,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetFile {
    pub(super) name: String,
    pub(super) index: bool,
    /// The identity of the staged file when the record was written.
    pub(super) new: FileIdentity,
    /// The identity of the file under this name when the record was written; `None` if no file
    /// existed.
    pub(super) old: Option<FileIdentity>,
}

/// A folder that is exchanged with the staged folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    pub(super) folder: OsString,
    /// The staged folder's inode. The name that currently has this inode shows whether the exchange
    /// has happened.
    pub(super) new_inode: u64,
    pub(super) old_inode: u64,
    /// The files of the output and the files of an older output. None of these files are carried
    /// over.
    pub(super) files: Vec<String>,
}

impl Record {
    pub(super) fn new(action: Action, sync: bool) -> Self {
        Self { version: VERSION, sync, action }
    }

    /// Writes the record into the stage, and replaces an earlier record.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let (part, path) = (root.join(UNFINISHED_NAME), root.join(RECORD));
        let failed = || failed("write the commit record", &path);
        let json = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::io(format!("cannot write the commit record: {error}")))?;
        fs::write(&part, json).map_err(failed())?;
        if self.sync {
            sync(&part).map_err(failed())?;
        }
        fault::reach("record-staged")?;
        fs::rename(&part, &path).map_err(failed())?;
        if self.sync {
            sync(root).map_err(failed())?;
            root.parent().map_or(Ok(()), sync).map_err(failed())?;
        }
        fault::reach("record-written")
    }

    /// Reads the record of a stage. Returns `None` if the stage has no record.
    pub(super) fn read(root: &Path) -> Result<Option<Self>> {
        let path = root.join(RECORD);
        let read = read_own(&path, MAX_BYTES).map_err(failed("read a commit record", &path))?;
        let Some(bytes) = read else { return Ok(None) };
        let record: Self = serde_json::from_slice(&bytes).map_err(|error| {
            Error::io(format!("this version cannot read the commit record: {error}"))
                .file(path.display().to_string())
        })?;
        record.check().map_err(|error| error.file(path.display().to_string()))?;
        Ok(Some(record))
    }

    /// Checks that no name leads out of the folder to which it is relative.
    fn check(&self) -> Result<()> {
        if self.version != VERSION {
            return Err(Error::io("the commit record has a different version")
                .expected(VERSION)
                .found(self.version));
        }
        let (folder, names): (_, Vec<&String>) = match &self.action {
            Action::Set(set) => (
                set.folder.as_ref(),
                (set.missing_folders.iter())
                    .chain(set.files.iter().map(|file| &file.name))
                    .chain(set.old_receipts.iter().chain(&set.stale).map(|file| &file.name))
                    .collect(),
            ),
            Action::Exchange(exchange) => (Some(&exchange.folder), exchange.files.iter().collect()),
        };
        if let Some(folder) = folder {
            let mut parts = Path::new(folder).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(Error::io("the commit record names a folder outside its own")
                    .found(format!("{folder:?}")));
            }
        }
        names.into_iter().try_for_each(|name| check_relative(name))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn exchange(folder: &str, file: &str) -> Record {
        let exchange =
            Exchange { folder: folder.into(), new_inode: 1, old_inode: 2, files: vec![file.to_owned()] };
        Record::new(Action::Exchange(exchange), false)
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(home.path()).unwrap(), None);
        let record = exchange("out", "sub/a");
        record.write(home.path()).unwrap();
        assert_eq!(Record::read(home.path()).unwrap(), Some(record));
        fs::remove_file(home.path().join(RECORD)).unwrap();
        assert_eq!(Record::read(home.path()).unwrap(), None);
    }

    #[test]
    fn a_record_that_leaves_its_folder_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for (folder, file) in
            [("..", "a"), ("a/b", "a"), ("/etc", "a"), ("out", "../a"), ("out", "/a"), ("", "a")]
        {
            exchange(folder, file).write(home.path()).unwrap();
            assert!(Record::read(home.path()).is_err(), "{folder} {file}");
        }
        fs::write(home.path().join(RECORD), r#"{"version":9,"action":"#).unwrap();
        assert!(Record::read(home.path()).is_err());
    }
}
