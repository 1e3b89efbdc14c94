//! Tables that have a log next to their data files. The log lists the current files of the table.
//! Older files contain rows that have since been deleted or changed. Reading all files in the
//! folder would therefore return wrong rows.
//!
//! Readers of a table's data files declare the option `table_log`. If its value is `ignore`, the
//! readers read every file.

use crate::context::session::Session;
use crate::formats::registry::RegisteredFormat;
use crate::read::folder::{EntryKind, InputFolder, absolute};
use crate::read::source::FileSource;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Entry, Error, OptionKind, Result, Side, Source};

/// The name of the option, and the value that makes a reader read every file.
const OPTION: &str = "table_log";
const IGNORE: &str = "ignore";
/// Maximum number of parent folders to check: the folders of partition keys, and one data folder.
const MAX_PARENTS: usize = 16;
/// Maximum number of folders to check if a source lists its files one by one.
const MAX_FOLDERS: usize = 1024;

/// A kind of table that has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLog {
    pub title: &'static str,
    /// The name of the table's log folder.
    pub folder: &'static str,
    /// Names or suffixes of files in the log folder, if the folder's name is not sufficient to
    /// identify it.
    files: &'static [&'static str],
    /// The name of a file that is in each data folder of the table.
    marker: Option<&'static str>,
}

const TABLES: [TableLog; 4] = [
    TableLog { title: "a Delta table", folder: "_delta_log", files: &[], marker: None },
    TableLog {
        title: "an Apache Hudi table",
        folder: ".hoodie",
        files: &[],
        marker: Some(".hoodie_partition_metadata"),
    },
    TableLog { title: "the output of a Spark stream", folder: "_spark_metadata", files: &[], marker: None },
    TableLog {
        title: "an Apache Iceberg table",
        folder: "metadata",
        files: &[".metadata.json", ".metadata.json.gz", ".gz.metadata.json", "version-hint.text"],
        marker: None,
    },
];

impl TableLog {
    /// Returns the kind of table whose log is among these sub-folders.
    pub fn among<'n>(
        folder: &InputFolder,
        mut folders: impl Iterator<Item = &'n str>,
    ) -> Result<Option<&'static Self>> {
        let Some((name, table)) = folders.find_map(|name| Some((name, Self::of_folder(name)?))) else {
            return Ok(None);
        };
        if table.files.is_empty() {
            return Ok(Some(table));
        }
        let entries = folder.in_folder(name).entries("", "", u64::MAX)?;
        Ok(table.is_log(entries.iter().map(|entry| entry.name.as_str())).then_some(table))
    }

    fn of_folder(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.folder == name)
    }

    /// Returns whether a folder with the name of this table's log is such a log, judging by the
    /// names of its files.
    fn is_log<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> bool {
        self.files.is_empty() || names.any(|name| self.files.iter().any(|end| name.ends_with(end)))
    }

    /// Returns the error for a folder that contains such a table.
    #[must_use]
    pub fn refusal(&self, folder: &Path) -> Error {
        let Self { title, folder: log, .. } = self;
        Error::unsupported(format!(
            "the folder is {title}: {log} lists its current files, and ferry does not read that log"
        ))
        .file(folder.display().to_string())
        .hint(format!(
            "export the table first, or pass -i {OPTION}={IGNORE} to read every file, including deleted rows"
        ))
    }
}

/// Returns whether the reader's options ignore the log.
#[must_use]
pub fn is_ignored(options: &[(String, String)]) -> bool {
    options.iter().any(|(key, value)| key == OPTION && value == IGNORE)
}

/// Returns whether a format reads the data files of such tables.
#[must_use]
pub fn is_of(format: &RegisteredFormat) -> bool {
    let is_it =
        |kind: &OptionKind| matches!(kind, OptionKind::Choice(values) if values.iter().any(|v| v == IGNORE));
    let mut options = format.description.options.iter();
    options.any(|option| option.side == Side::Reader && option.key == OPTION && is_it(&option.kind))
}

/// Checks that the files of a source do not belong to a table with a log in their folder or above
/// their partitions. The check is skipped if the user named a single file.
pub fn check(
    source: &FileSource,
    format: &RegisteredFormat,
    options: &[(String, String)],
    session: &Session,
) -> Result<()> {
    let is_one_file = matches!(source.entry(), Entry::File(_)) && !source.is_listed();
    if is_one_file || is_ignored(options) || !is_of(format) {
        return Ok(());
    }
    let root = InputFolder::at(source.folder(), session)?;
    let mut folders: BTreeSet<String> = BTreeSet::from([String::new()]);
    if source.is_listed() {
        let names = source.list("")?;
        let of = |name: &String| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        folders.extend(names.iter().filter_map(of).take(MAX_FOLDERS));
    }
    let mut seen = BTreeSet::new();
    for folder in folders {
        let mut folder = root.in_folder(&folder);
        for _ in 0..MAX_PARENTS {
            if !seen.insert(folder.path().to_owned()) {
                break;
            }
            if let Some(table) = log_in(&folder)? {
                return Err(table.refusal(folder.path()));
            }
            match parent(folder.path()) {
                Some(above) => folder = InputFolder::at(&above, session)?,
                None => break,
            }
        }
    }
    Ok(())
}

/// Returns the kind of table whose log is in a folder.
fn log_in(folder: &InputFolder) -> Result<Option<&'static TableLog>> {
    let mut there = Vec::new();
    for table in &TABLES {
        if folder.kind(table.folder)? == Some(EntryKind::Folder) {
            there.push(table.folder);
        }
        if let Some(marker) = table.marker
            && folder.kind(marker)? == Some(EntryKind::File)
        {
            return Ok(Some(table));
        }
    }
    TableLog::among(folder, there.into_iter())
}

/// Returns the parent of a folder, if the folder may be part of a table: a partition, or the data
/// folder.
fn parent(folder: &Path) -> Option<PathBuf> {
    // A relative path such as `.` has no file name, but its absolute path has one.
    let whole = folder.file_name().is_none().then(|| absolute(folder).ok()).flatten();
    let folder = whole.as_deref().unwrap_or(folder);
    let name = folder.file_name()?.to_str()?;
    let may_be_part = name == "data" || name.contains('=');
    let above = folder.parent().filter(|_| may_be_part)?;
    Some(if above.as_os_str().is_empty() { PathBuf::from(".") } else { above.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_known_by_its_folder() {
        let is_log = |folder, file| TableLog::of_folder(folder).is_some_and(|t| t.is_log([file].into_iter()));
        assert!(is_log("_delta_log", "") && is_log(".hoodie", "") && is_log("_spark_metadata", ""));
        assert!(is_log("metadata", "v1.metadata.json") && is_log("metadata", "version-hint.text"));
        assert!(is_log("metadata", "00000-9c2f.gz.metadata.json"));
        assert!(!is_log("metadata", "model.json") && !is_log("data", "v1.metadata.json"));
    }

    #[test]
    fn a_partition_is_a_part_of_the_folder_above() {
        assert_eq!(parent(Path::new("t/day=1")), Some(PathBuf::from("t")));
        assert_eq!(parent(Path::new("s3://b/t/data")), Some(PathBuf::from("s3://b/t")));
        assert_eq!(parent(Path::new("day=1")), Some(PathBuf::from(".")));
        assert_eq!(parent(Path::new("t/part")), None);
    }
}
