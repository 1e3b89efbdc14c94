//! Earlier files are files that an earlier run wrote into the output's folder and that the new
//! output does not contain. Examples are weights in a different format, or a sidecar that the input
//! no longer contains. Programs that read the folder would mistake these files for parts of the new
//! output.
//!
//! The commit removes an earlier file if ferry wrote the file and the file has not changed since.
//! Two kinds of proof are possible. The first is the file's identity, which the caller passes and
//! which is quick to check. The second is a digest in the earlier output's receipt, which can be
//! checked only by reading the file. Changed files are kept, and a note lists them. In an object
//! store, only identities are checked, because computing a digest would download the whole object.

use crate::context::ConversionContext;
use crate::receipt::digest::hash_path;
use crate::receipt::{self, FileRecord, Receipt};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tensorferry_core::read::folder::is_url;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_core::read::weights::WeightNames;
use tensorferry_publish::beneath;
use tensorferry_publish::stage::{Destination, DestinationKind, FileKind, StagedFile};
use tensorferry_publish::staging::OutputFolder;
use tensorferry_sdk::{Context, Entry, Result, Source, check_name};

/// The files of an earlier output that the new output does not contain.
#[derive(Debug, Default)]
pub(super) struct EarlierFiles {
    /// Files that ferry wrote and that have not changed, with their identities.
    pub(super) proven: Vec<(StagedFile, FileIdentity)>,
    /// Files that were changed, or whose origin is unknown.
    pub(super) unproven: Vec<String>,
}

/// Finds the earlier files. `is_settled` returns whether a file name is already handled by other
/// code.
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
    // A file that was replaced by a copy of itself has a new identity but the same digest.
    // `add_receipt_files` checks the digest below.
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
        add_receipt_files(context, destination, is_settled, &mut seen, &mut found)?;
        changed.extend(other_weights(context, destination)?);
    }
    found.unproven.extend(changed.into_iter().filter(|name| !seen.contains(name) && !is_settled(name)));
    Ok(found)
}

/// Returns whether the output's folder is the input's folder, is inside it, or contains it. In
/// these cases, earlier files may be parts of the input.
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

/// Finds the files that the earlier output's receipt lists. The receipt itself is added last, but
/// is removed first.
fn add_receipt_files(
    context: &ConversionContext<'_>,
    destination: &Destination,
    is_settled: &dyn Fn(&str) -> bool,
    seen: &mut BTreeSet<String>,
    found: &mut EarlierFiles,
) -> Result<()> {
    let path = destination.folder.join(receipt::name_for(destination));
    // A file that is not a receipt belongs to the user.
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
    // A file that cannot be read counts as changed.
    Ok(found.is_ok_and(|found| found == file.digest))
}

/// Finds files in the output's own folder whose names are names of weights. The origin of these
/// files is unknown.
fn other_weights(context: &ConversionContext<'_>, destination: &Destination) -> Result<Vec<String>> {
    if destination.kind != DestinationKind::Folder {
        return Ok(Vec::new());
    }
    let weights = WeightNames::of(context.registry)?;
    let entries = std::fs::read_dir(&destination.folder).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| weights.is_match(name)).collect())
}
