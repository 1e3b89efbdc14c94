//! Stale files are those of an older output that the new one replaces under other names: shards of
//! another number, the index of a model that is one file now. Writers say what they are called. Also
//! the receipt of an older output, where the new one gets none.

use crate::commit::StagedFile;
use crate::models::Model;
use crate::receipt::Receipt;
use crate::run::Run;
use globset::GlobBuilder;
use std::path::Path;
use tensorferry_sdk::{Context, Error, Layout, Result, Role};

/// The stale files that stand in the output's folder, by the layouts' patterns: with `force` those
/// that go. `receipt` is the name that an older receipt would have, to go with them. Without `force`,
/// and where they are what the input is read from, they stay, with a note.
///
/// # Errors
/// A plugin error, for a pattern that is none; i/o.
pub fn find(
    folder: &Path,
    layouts: &[&Layout],
    models: &[Model<'_>],
    receipt: Option<String>,
    force: bool,
    run: &Run,
) -> Result<Vec<StagedFile>> {
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    // What is no receipt is somebody else's file.
    let receipt = receipt.filter(|name| Receipt::is_at(&folder.join(name), &run.limits));
    let receipt = receipt.map(|path| StagedFile { path, index: true });
    for file in matching(folder, layouts)?.into_iter().chain(receipt) {
        let is_input = models.iter().any(|model| model.input.source.has_opened(&folder.join(&file.path)));
        if force && !is_input { gone.push(file) } else { kept.push(file.path) }
    }
    if let Some(first) = kept.first() {
        let more = if kept.len() == 1 { String::new() } else { format!(" and {} more", kept.len() - 1) };
        run.note(&format!("{first:?}{more} beside the output may be taken for a part of it"));
    }
    Ok(gone)
}

fn matching(folder: &Path, layouts: &[&Layout]) -> Result<Vec<StagedFile>> {
    let is_output = |name: &str| layouts.iter().any(|layout| layout.files().iter().any(|f| f.path == name));
    let mut found: Vec<StagedFile> = Vec::new();
    for (pattern, role) in layouts.iter().flat_map(|layout| layout.superseded()) {
        let (parent, _) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let matcher = glob.map_err(|e| Error::plugin(format!("not a pattern: {e}")))?.compile_matcher();
        for name in files_in(folder, parent)? {
            if matcher.is_match(&name) && !is_output(&name) && !found.iter().any(|file| file.path == name) {
                found.push(StagedFile { path: name, index: *role == Role::Index });
            }
        }
    }
    Ok(found)
}

/// The names of the files in a folder, relative to `root`; none where it is not there.
fn files_in(root: &Path, folder: &str) -> Result<Vec<String>> {
    let path = root.join(folder);
    let entries = match std::fs::read_dir(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| Error::from(e).file(path.display().to_string()))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::from(e).file(path.display().to_string()))?;
        let is_file = entry.file_type().is_ok_and(|kind| !kind.is_dir());
        if let Some(name) = entry.file_name().to_str().filter(|_| is_file) {
            names.push(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") });
        }
    }
    names.sort();
    Ok(names)
}
