//! Explains a folder that no format matches as a whole. Lists the sub-folders that are datasets,
//! and the files that are datasets on their own.

use crate::context::session::Session;
use crate::formats::probe::probe;
use crate::formats::registry::{Formats, holds_records};
use crate::read::own_files::is_own;
use crate::read::source::FileSource;
use std::collections::VecDeque;
use tensorferry_sdk::{Entry, Error, Result, Source};

/// Maximum depth of sub-folders. The next constant is the maximum number of files and folders to
/// inspect.
const MAX_DEPTH: usize = 3;
const MAX_EXAMINED: usize = 64;
/// Maximum number of names to list in an error.
const MAX_LISTED: usize = 8;

/// Extends the error for an unknown folder with the inputs that the user can name instead.
pub(super) fn explain(error: Error, source: &FileSource, registry: &Formats, session: &Session) -> Error {
    if *source.entry() != Entry::Folder || source.is_listed() {
        return error;
    }
    let folders = data_sets_below(source, registry, session).unwrap_or_default();
    if !folders.is_empty() {
        return error
            .found(format!("datasets in sub-folders: {}", listed(&folders)))
            .hint("pass one of these folders");
    }
    let files = files_alone(source, registry, session).unwrap_or_default();
    match files.first() {
        Some((_, id)) => {
            let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
            error
                .found(listed(&names))
                .hint(format!("pass one of these files, or --from {id} to read them as one dataset"))
        }
        None => error,
    }
}

/// Returns the sub-folders that contain records. The sub-folders of these folders are not searched.
fn data_sets_below(source: &FileSource, registry: &Formats, session: &Session) -> Result<Vec<String>> {
    let visible = |folders: Vec<String>, depth: usize| {
        let is_visible = |name: &String| !name.rsplit('/').next().unwrap_or(name).starts_with(['.', '_']);
        folders.into_iter().filter(is_visible).map(move |folder| (folder, depth))
    };
    let mut open: VecDeque<(String, usize)> = visible(source.folders("")?, 1).collect();
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while let Some((folder, depth)) = open.pop_front().filter(|_| looked_at < MAX_EXAMINED) {
        looked_at += 1;
        let inside = source.in_folder(&folder);
        match probe(registry, &inside, None, session) {
            Ok(format) if holds_records(&format.description) => found.push(folder),
            Ok(_) => {}
            Err(_) if depth < MAX_DEPTH => open.extend(visible(source.folders(&folder)?, depth + 1)),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Returns the files that are record files on their own, with their format. The first file
/// determines the format, and files in other formats are skipped.
fn files_alone(source: &FileSource, registry: &Formats, session: &Session) -> Result<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    let is_data = |name: &String| !is_own(source.folder(), name);
    for name in source.list("")?.into_iter().filter(is_data).take(MAX_EXAMINED) {
        let alone = source.with_files(vec![name.clone()]);
        let Ok(format) = probe(registry, &alone, None, session) else { continue };
        let id = &format.description.id;
        if holds_records(&format.description) && found.first().is_none_or(|(_, first)| first == id) {
            found.push((name, id.clone()));
        }
    }
    Ok(found)
}

pub(super) fn listed(names: &[String]) -> String {
    tensorferry_sdk::listed(names.iter().map(|name| format!("{name:?}")), MAX_LISTED)
}
