//! Earlier files are those that an earlier run wrote into an output's folder and that the new output does not bring: weights in another
//! format, a sidecar that the input has no more. Whoever reads the folder would take them for a part of it.
//!
//! They go with the commit if they are ferry's and as they were written: by what the caller says of them, which costs a look, or by
//! the earlier output's receipt, which costs reading them. What was changed since stays, and the user is told. In a store only what the
//! caller says counts: a digest would have the whole object fetched.
//!
//! Both proofs (the stamps of a journal, and the lengths and digests of a receipt) are checked
//! again before the commit.

use crate::context::ConversionContext;
use crate::receipt::digest::hash_path;
use crate::receipt::{self, FileRecord, Receipt};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tensorferry_core::read::folder::is_url;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_core::read::weights::Weights;
use tensorferry_publish::beneath;
use tensorferry_publish::stage::{Destination, DestinationKind, FileKind, StagedFile};
use tensorferry_publish::staging::OutputFolder;
use tensorferry_sdk::{Context, Entry, Result, Source, check_name};

/// What there is of an earlier output.
#[derive(Debug, Default)]
pub(super) struct EarlierFiles {
    /// Those that are ferry's and as they were written, and what they are.
    pub(super) proven: Vec<(StagedFile, FileIdentity)>,
    /// Those that were changed since, or of which nobody knows who wrote them.
    pub(super) unproven: Vec<String>,
}

/// Finds them. `is_settled`: whether it is known otherwise what becomes of a name.
pub(super) fn find(
    context: &ConversionContext<'_>,
    place: &dyn OutputFolder,
    is_settled: &dyn Fn(&str) -> bool,
) -> Result<EarlierFiles> {
    let destination = &context.target.destination;
    let mut found = EarlierFiles::default();
    if !context.request.output.commit.force || lies_in_input(context, place) {
        return Ok(found);
    }
    let mut seen = BTreeSet::from([receipt::name_for(destination)]);
    // Copied back, a file has another identity and the digest that it had.
    let mut changed = BTreeSet::new();
    for (path, identity) in &context.request.output.earlier {
        let name = path.strip_prefix(&destination.folder).ok().and_then(Path::to_str);
        let name = name.filter(|name| check_name(name).is_ok() && !seen.contains(*name) && !is_settled(name));
        let Some((name, there)) = name.and_then(|name| Some((name, place.identity(name)?))) else {
            continue;
        };
        if there == *identity {
            seen.insert(name.to_owned());
            found.proven.push((StagedFile::new(name, FileKind::Data), there));
        } else {
            changed.insert(name.to_owned());
        }
    }
    if let Some(destination) = place.local() {
        by_receipt(context, destination, is_settled, &mut seen, &mut found)?;
        changed.extend(other_weights(context, destination)?);
    }
    found.unproven.extend(changed.into_iter().filter(|name| !seen.contains(name) && !is_settled(name)));
    Ok(found)
}

/// Whether the output comes to lie in the folder that is converted, or around it: what is an earlier output's there may be a part of the
/// input.
fn lies_in_input(context: &ConversionContext<'_>, place: &dyn OutputFolder) -> bool {
    let input = context.source.folder();
    let is_remote = input.to_str().is_some_and(is_url);
    if *context.source.entry() != Entry::Folder || is_remote && place.local().is_some() {
        return false;
    }
    let folder = place.path_of("");
    let resolved = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (input, folder): (PathBuf, PathBuf) = (resolved(input), resolved(&folder));
    input.starts_with(&folder) || folder.starts_with(&input)
}

/// Files that the earlier output's receipt names. Its index comes after what it names, and goes before it.
fn by_receipt(
    context: &ConversionContext<'_>,
    destination: &Destination,
    is_settled: &dyn Fn(&str) -> bool,
    seen: &mut BTreeSet<String>,
    found: &mut EarlierFiles,
) -> Result<()> {
    let path = destination.folder.join(receipt::name_for(destination));
    // What is no receipt is somebody else's file.
    let Ok(receipt) = Receipt::read(&path, context.session) else { return Ok(()) };
    for file in receipt.output.files.iter().rev() {
        if check_name(&file.name).is_err() || is_settled(&file.name) || !seen.insert(file.name.clone()) {
            continue;
        }
        let place = beneath::Place::find(&destination.folder, Path::new(&file.name));
        let Some(there) = place.ok().and_then(|place| place.stat().ok().flatten()) else { continue };
        if there.is_file() && is_as_written(context, &destination.folder, file, there.len())? {
            found.proven.push((StagedFile::new(&*file.name, FileKind::Data), FileIdentity::of(&there)));
        } else {
            found.unproven.push(file.name.clone());
        }
    }
    Ok(())
}

fn is_as_written(
    context: &ConversionContext<'_>,
    folder: &Path,
    file: &FileRecord,
    len: u64,
) -> Result<bool> {
    if len != file.bytes {
        return Ok(false);
    }
    let found = hash_path(&folder.join(&file.name), len, file.digest.algorithm(), context.session);
    context.session.check_cancelled()?;
    // What cannot be read is not proven.
    Ok(found.is_ok_and(|found| found == file.digest))
}

/// What lies in an output's own folder and is known by its name as weights: nobody says who wrote it.
fn other_weights(context: &ConversionContext<'_>, destination: &Destination) -> Result<Vec<String>> {
    if destination.kind != DestinationKind::Folder {
        return Ok(Vec::new());
    }
    let weights = Weights::of(context.registry)?;
    let entries = std::fs::read_dir(&destination.folder).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| weights.is_match(name)).collect())
}
