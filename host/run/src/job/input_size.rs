//! About how many bytes an input has, to tell big jobs from small ones before anything is opened.

use std::path::Path;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::read::file_group::FileGroup;
use tensorferry::engine::read::folder::{EntryKind, FolderEntry, InputFolder};
use tensorferry_sdk::Result;

/// An index is smaller than this, and the files that it names are not.
const MOST_INDEX: u64 = 1 << 20;
/// How deep folders are entered.
const DEEPEST: usize = 8;

/// The size of a file, of all files in a folder, or of all files whose names begin like an index or a prefix; 0 for what
/// cannot be looked at.
pub(super) fn estimate(input: &Path, session: &Session) -> u64 {
    size(input, session).unwrap_or(0)
}

/// The size of a group's files.
pub(super) fn of_files(group: &FileGroup, session: &Session) -> u64 {
    let folder = InputFolder::at(&group.folder, session);
    folder.map_or(0, |folder| group.files.iter().map(|name| folder.len(name)).sum())
}

fn size(input: &Path, session: &Session) -> Result<u64> {
    let whole = InputFolder::at(input, session)?;
    let name = input.file_name().unwrap_or_default().to_string_lossy();
    let prefix = match (whole.kind("")?, name.split_once(".index")) {
        (Some(EntryKind::Folder), _) => return of_folder(&whole, "", 0),
        (Some(_), Some((stem, _))) if whole.len("") < MOST_INDEX => stem.split('.').next().unwrap_or(stem),
        (Some(_), _) => return Ok(whole.len("")),
        (None, _) => &*name,
    };
    let folder = InputFolder::at(input.parent().unwrap_or(Path::new(".")), session)?;
    let named = folder.entries("", prefix, session.limits.entries)?;
    let files = named.iter().filter(|entry| entry.kind == EntryKind::File);
    Ok(files.map(|entry| len(&folder, entry)).sum())
}

fn of_folder(folder: &InputFolder, name: &str, depth: usize) -> Result<u64> {
    let mut sum = 0;
    for entry in folder.entries(name, "", u64::MAX)? {
        sum += match entry.kind {
            EntryKind::File => len(folder, &entry),
            EntryKind::Folder if depth < DEEPEST => of_folder(folder, &entry.name, depth + 1).unwrap_or(0),
            _ => 0,
        };
    }
    Ok(sum)
}

fn len(folder: &InputFolder, entry: &FolderEntry) -> u64 {
    entry.len.unwrap_or_else(|| folder.len(&entry.name))
}
