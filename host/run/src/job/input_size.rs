//! About how many bytes an input has, to tell big jobs from small ones before anything is opened.

use std::fs::{self, DirEntry};
use std::path::Path;

/// An index is smaller than this, and the files that it names are not.
const MOST_INDEX: u64 = 1 << 20;
/// How deep folders are entered.
const DEEPEST: usize = 8;

/// The size of a file, of all files in a folder, or of all files whose names begin like an index or a prefix.
pub(super) fn estimate(input: &Path) -> u64 {
    let name = input.file_name().unwrap_or_default().to_string_lossy();
    let Ok(meta) = fs::metadata(input) else { return of_prefix(input, &name) };
    match name.split_once(".index") {
        _ if meta.is_dir() => of_folder(input, 0),
        Some((stem, _)) if meta.len() < MOST_INDEX => {
            of_prefix(input, stem.split('.').next().unwrap_or(stem))
        }
        _ => meta.len(),
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn of_prefix(input: &Path, prefix: &str) -> u64 {
    let named = entries(input.parent().unwrap_or(Path::new(".")))
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(fs::Metadata::is_file)
        .map(|meta| meta.len())
        .sum()
}

fn of_folder(folder: &Path, depth: usize) -> u64 {
    let sizes = entries(folder).map(|entry| match fs::metadata(entry.path()) {
        Ok(meta) if meta.is_file() => meta.len(),
        Ok(meta) if meta.is_dir() && depth < DEEPEST => of_folder(&entry.path(), depth + 1),
        _ => 0,
    });
    sizes.sum()
}
