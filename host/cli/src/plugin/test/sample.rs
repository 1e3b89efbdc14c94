//! Loads samples, which are small inputs of a format, into memory.

use std::collections::BTreeMap;
use std::path::Path;
use tensorferry_sdk::conformance::Sample;
use tensorferry_sdk::{Entry, Error, Result};

/// Maximum size of a sample in bytes. With a larger sample, the test would take minutes, even if
/// the test damaged only some of the bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Loads a file or a folder. With a file, also loads the files next to it whose names begin with
/// its name. With a folder, loads all files in it.
pub(super) fn load(path: &Path) -> Result<Sample> {
    let mut files = BTreeMap::new();
    if path.is_dir() {
        add_folder(path, "", &mut files)?;
        return Ok(Sample::set(Entry::Folder, files));
    }
    let unnamed = || Error::usage("not a file name").file(path.display().to_string());
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(unnamed)?;
    add(path, name, &mut files)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for (beside, entry) in entries(folder)? {
        if beside != name && beside.starts_with(name) && entry.is_file() {
            add(&entry, &beside, &mut files)?;
        }
    }
    Ok(Sample::set(Entry::File(name.to_owned()), files))
}

fn add_folder(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for (name, path) in entries(folder)? {
        if path.is_dir() {
            add_folder(&path, &format!("{prefix}{name}/"), files)?;
        } else {
            add(&path, &format!("{prefix}{name}"), files)?;
        }
    }
    Ok(())
}

fn add(path: &Path, name: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
    let len = path.metadata().map_err(failed)?.len();
    let held: u64 = files.values().map(|bytes| bytes.len() as u64).sum();
    if held + len > MAX_BYTES {
        let error = Error::usage(format!("{} bytes are too many for a sample", held + len));
        let hint = "pass a sample of a few kilobytes, at most 1 MiB: the test damages each byte once";
        return Err(error.file(path.display().to_string()).hint(hint));
    }
    files.insert(name.to_owned(), std::fs::read(path).map_err(failed)?);
    Ok(())
}

/// Returns a folder's entries, except those whose names are not valid UTF-8.
fn entries(folder: &Path) -> Result<BTreeMap<String, std::path::PathBuf>> {
    let failed = |e: std::io::Error| Error::from(e).file(folder.display().to_string());
    let mut entries = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string() {
            entries.insert(name, entry.path());
        }
    }
    Ok(entries)
}
