//! Finds the receipts for paths that a user passes. A path may be an output, a file of a set, or a
//! receipt. A path may also be a folder that contains outputs, including outputs in its
//! sub-folders.

use super::{IN_FOLDER, Receipt, beside, is_name};
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tensorferry_core::context::session::Session;
use tensorferry_core::read::folder::{EntryKind, InputFolder, is_url, shown};
use tensorferry_sdk::{Error, Result};

/// Maximum depth of sub-folders to search for receipts.
const MAX_FOLDERS: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundReceipts {
    /// The receipts, without duplicates and sorted by path.
    pub receipts: Vec<PathBuf>,
    /// The requested paths that have no receipt.
    pub without: Vec<PathBuf>,
}

pub fn find(paths: &[PathBuf], session: &Session) -> Result<FoundReceipts> {
    let mut receipts = BTreeSet::new();
    let mut without = Vec::new();
    let mut folders = Folders { session, known: BTreeMap::new() };
    for path in paths {
        let is_url = path.to_str().is_some_and(is_url);
        let found = if is_url { of_url(path, session)? } else { of_path(path, &mut folders)? };
        if found.is_empty() {
            without.push(path.clone());
        }
        receipts.extend(found);
    }
    Ok(FoundReceipts { receipts: receipts.into_iter().collect(), without })
}

fn of_path(path: &Path, folders: &mut Folders<'_>) -> Result<Vec<PathBuf>> {
    let own = beside(&without_slash(path));
    let own = own.is_file().then_some(own);
    if path.is_dir() {
        let mut found = Vec::from_iter(own);
        below(&InputFolder::local(path.to_owned()), "", 0, &mut found)?;
        return Ok(found);
    }
    if path.is_file() && is_name(&path.to_string_lossy()) {
        return Ok(vec![path.to_owned()]);
    }
    if let Some(own) = own {
        return Ok(vec![own]);
    }
    if !path.exists() {
        return Err(
            Error::usage("no such file or folder, and no receipt for it").file(path.display().to_string())
        );
    }
    Ok(folders.owner(path)?.into_iter().collect())
}

/// Finds the receipts for a URL in an object store, as [`of_path`] does for a local path.
fn of_url(url: &Path, session: &Session) -> Result<Vec<PathBuf>> {
    let whole = InputFolder::at(url, session)?;
    let kind = whole.kind("")?;
    let bare = PathBuf::from(url.to_string_lossy().trim_end_matches('/'));
    let own = beside(&bare);
    let has_own = InputFolder::at(&own, session)?.kind("")? == Some(EntryKind::File);
    let mut found = Vec::from_iter(has_own.then_some(own));
    match kind {
        Some(EntryKind::Folder) => below(&whole, "", 0, &mut found)?,
        Some(_) if is_name(&bare.to_string_lossy()) => found = vec![bare],
        Some(_) if found.is_empty() => {
            let folder = bare.parent().unwrap_or(&bare);
            let inside = InputFolder::at(folder, session)?;
            for entry in inside.entries("", "", session.limits.entries)? {
                let path = inside.path_of(&entry.name);
                let names = |receipt: Receipt| {
                    let mut files = receipt.output.files.iter();
                    files.any(|file| inside.path_of(&file.name) == whole.path())
                };
                if is_name(&entry.name) && Receipt::read(&path, session).is_ok_and(names) {
                    found.push(path);
                }
            }
        }
        Some(_) => {}
        None if found.is_empty() => {
            return Err(Error::usage("no such file or folder, and no receipt for it").file(shown(url)));
        }
        None => {}
    }
    Ok(found)
}

/// Finds all receipts in a folder and its sub-folders, except hidden folders and links.
fn below(top: &InputFolder, folder: &str, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if depth > MAX_FOLDERS {
        return Ok(());
    }
    for entry in top.entries(folder, "", u64::MAX)? {
        let own = entry.name.rsplit('/').next().unwrap_or_default();
        if entry.kind == EntryKind::Folder && !entry.is_link && !own.starts_with('.') {
            below(top, &entry.name, depth + 1, found)?;
        } else if (entry.kind != EntryKind::Folder || entry.is_link) && is_name(own) {
            found.push(top.path_of(&entry.name));
        }
    }
    Ok(())
}

/// Removes a trailing slash from a path. The receipt of both `model/` and `model` is
/// `model.ferry.json`.
fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

fn entries(folder: &Path) -> Result<Vec<std::fs::DirEntry>> {
    let failed = |e: std::io::Error| Error::from(e).file(folder.display().to_string());
    std::fs::read_dir(folder).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

/// A cache of the files that the receipts of each folder list. Each folder is read once, even if a
/// shell expands `*` to many of its files.
struct Folders<'a> {
    session: &'a Session,
    known: BTreeMap<PathBuf, BTreeMap<PathBuf, PathBuf>>,
}

impl Folders<'_> {
    /// Finds the receipt that lists an output file. The receipt is in the file's folder or in a
    /// folder above it.
    fn owner(&mut self, file: &Path) -> Result<Option<PathBuf>> {
        let absolute =
            std::path::absolute(file).map_err(|e| Error::from(e).file(file.display().to_string()))?;
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        // If the output is a set of files, the receipt is next to the file. If the output is a
        // folder, the receipt is in that folder, and the file may be in one of its sub-folders.
        let around = folder.ancestors().find(|folder| folder.join(IN_FOLDER).is_file());
        let around = around.map(Path::to_owned);
        let candidates = [Some(folder.clone()), around.filter(|around| *around != folder)];
        for candidate in candidates.into_iter().flatten() {
            let files = match self.known.entry(candidate) {
                Slot::Occupied(known) => known.into_mut(),
                Slot::Vacant(slot) => {
                    let files = listed_files(slot.key(), self.session)?;
                    slot.insert(files)
                }
            };
            if let Some(receipt) = files.get(&absolute) {
                return Ok(Some(receipt.clone()));
            }
        }
        Ok(None)
    }
}

/// Returns the files that the receipts of a folder list, each with its receipt. Receipts that
/// cannot be read are skipped. Such receipts are reported if the user passes them or their folder.
fn listed_files(folder: &Path, session: &Session) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let mut named = BTreeMap::new();
    for entry in entries(folder)? {
        if !is_name(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if let Ok(receipt) = Receipt::read(&entry.path(), session) {
            named.extend(receipt.output.files.iter().map(|file| (folder.join(&file.name), entry.path())));
        }
    }
    Ok(named)
}
