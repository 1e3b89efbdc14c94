//! Finds the checkpoint that a user means by a file, a prefix or a folder.
//!
//! ```text
//! V2    P.index, P.data-00000-of-00001, ...    P is the prefix: there is no file of that name
//! V1    P, or P-00000-of-00002, ...            each file a table of its own
//! both  P.meta (a graph), checkpoint (which of a folder's checkpoints is the latest)
//! ```
//! Sources: tensorflow/core/util/tensor_bundle/naming.cc, tensorflow/python/training/saver.py and
//! checkpoint_management.py.

use crate::bundle::{INDEX_SUFFIX, data_file, has_data_files};
use crate::state_file::{self, STATE_FILE};
use crate::table::has_magic;
use tensorferry_sdk::{Entry, Error, Limits, Loss, LossKind, Result, ShardName, Source, check_name, listed};

/// The ending of the graph beside a checkpoint.
const META_SUFFIX: &str = ".meta";
/// What stands for the shard in the name that TensorFlow gives to a sharded V1 checkpoint.
const ANY_SHARD: &str = "-?????-of-";
/// The longest state file: thousands of paths.
const MOST_STATE_BYTES: u64 = 4 << 20;
/// The most checkpoints that a message lists.
const MOST_LISTED: usize = 8;

/// A checkpoint of one of the two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// A bundle: its prefix.
    V2(String),
    /// Tables that hold tensors: their names, sorted.
    V1(Vec<String>),
}

/// Finds the checkpoint that the source's entry means: any file of one, its prefix, or a folder, which
/// stands for its latest. The latest one is lost if it is missing and another is in its place.
pub(crate) fn find(source: &dyn Source, limits: &Limits) -> Result<(Checkpoint, Option<Loss>)> {
    let checkpoint = match source.entry() {
        Entry::Folder => return in_folder(source, limits),
        Entry::File(name) if name == STATE_FILE => return in_folder(source, limits),
        Entry::File(name) => of_file(source, name)?,
        Entry::Prefix(prefix) => match of_prefix(source, prefix)? {
            Some(checkpoint) => checkpoint,
            None => return Err(no_such_prefix(source, prefix)?),
        },
    };
    Ok((checkpoint, None))
}

/// The checkpoint of one of its files.
fn of_file(source: &dyn Source, name: &str) -> Result<Checkpoint> {
    if let Some(prefix) = name.strip_suffix(INDEX_SUFFIX) {
        return Ok(Checkpoint::V2(prefix.to_owned()));
    }
    let prefix = data_file(name).map(|(prefix, _)| prefix).or(name.strip_suffix(META_SUFFIX));
    // A file that is there is no prefix of others: the folder, which may be long, need not be listed.
    match prefix.map_or_else(|| of_name(source, name), |prefix| of_prefix(source, prefix))? {
        Some(checkpoint) => Ok(checkpoint),
        None if prefix.is_some() => {
            Err(Error::malformed("the checkpoint that this file is part of has no index").file(name))
        }
        None => Err(nothing(name)),
    }
}

/// The checkpoint of a prefix. As in TensorFlow, a bundle is taken before a V1 file.
fn of_prefix(source: &dyn Source, prefix: &str) -> Result<Option<Checkpoint>> {
    if let Some(checkpoint) = of_name(source, prefix)? {
        return Ok(Some(checkpoint));
    }
    let names = source.list(&format!("{prefix}-"))?;
    let mut sets = names.iter().filter_map(|name| v1_shard(name)).filter(|name| name.stem == prefix);
    sets.next().map(|shard| shards(source, shard)).transpose()
}

/// The checkpoint that has just this name, or whose shards do.
fn of_name(source: &dyn Source, prefix: &str) -> Result<Option<Checkpoint>> {
    if source.contains(&format!("{prefix}{INDEX_SUFFIX}"))? {
        return Ok(Some(Checkpoint::V2(prefix.to_owned())));
    }
    // What TensorFlow calls all of them has no number.
    if let Some(shard) = v1_shard(&prefix.replace(ANY_SHARD, "-00000-of-")) {
        return shards(source, shard).map(Some);
    }
    if source.contains(prefix)? && has_magic(source, source.open(prefix)?)? {
        return Ok(Some(Checkpoint::V1(vec![prefix.to_owned()])));
    }
    Ok(None)
}

/// The shard of a V1 checkpoint that a file is by its name.
fn v1_shard(name: &str) -> Option<ShardName<'_>> {
    ShardName::parse(name).filter(|shard| shard.ending.is_empty())
}

/// All the files of a sharded V1 checkpoint.
fn shards(source: &dyn Source, shard: ShardName<'_>) -> Result<Checkpoint> {
    let names = source.list(&format!("{}-", shard.stem))?;
    let is_member = |name: &String| v1_shard(name).is_some_and(|other| other.is_of_set(&shard));
    let files: Vec<String> = names.into_iter().filter(is_member).collect();
    if shard.count != files.len() as u64 {
        return Err(Error::malformed("not all files of a sharded V1 checkpoint are there")
            .file(shard.pattern())
            .expected(format!("{} files", shard.count))
            .found(files.len()));
    }
    Ok(Checkpoint::V1(files))
}

/// The folder's latest checkpoint, or its only one.
fn in_folder(source: &dyn Source, limits: &Limits) -> Result<(Checkpoint, Option<Loss>)> {
    let mut missing = None;
    // Of files that were chosen one by one it says nothing, unless it is among them.
    if source.contains(STATE_FILE)? && source.list(STATE_FILE)?.iter().any(|name| name == STATE_FILE) {
        let latest = latest(source, limits)?;
        if let Some(checkpoint) = of_state(source, &latest)? {
            return Ok((checkpoint, None));
        }
        missing = Some(latest);
    }
    let mut found = candidates(source)?;
    match (found.pop(), missing) {
        (None, None) => Err(Error::malformed("the folder holds no checkpoint")),
        (None, Some(latest)) => Err(Error::malformed("the latest checkpoint of the folder is not there")
            .file(STATE_FILE)
            .expected(format!("{latest:?}"))),
        (Some((only, checkpoint)), missing) if found.is_empty() => {
            let why = format!(
                "{STATE_FILE:?} names it as the latest checkpoint, and it is missing: reading {only:?}"
            );
            Ok((checkpoint, missing.map(|latest| Loss::new(LossKind::State, latest, why))))
        }
        (Some(last), _) => {
            found.push(last);
            Err(several(&found))
        }
    }
}

/// The prefix that the folder's state file gives as the latest.
fn latest(source: &dyn Source, limits: &Limits) -> Result<String> {
    let file = source.open(STATE_FILE)?;
    // Other programs call their whole checkpoint so.
    if source.len(file) > MOST_STATE_BYTES {
        return Err(Error::malformed("the file is too long to be a folder's state")
            .file(STATE_FILE)
            .expected(format!("at most {MOST_STATE_BYTES} bytes"))
            .found(source.len(file)));
    }
    let bytes = source.read_vec(file, 0, source.len(file), limits)?;
    let state = state_file::parse(&bytes, STATE_FILE, limits)?;
    if state.model_checkpoint_path.is_empty() {
        let error = Error::malformed("the state file names no latest checkpoint").file(STATE_FILE);
        return Err(error.expected("model_checkpoint_path"));
    }
    Ok(state.model_checkpoint_path)
}

/// The checkpoint of a path in the state file, if it is here. A path from the root of the machine
/// that wrote it stands for the file of that name in this folder, which may have been moved.
fn of_state(source: &dyn Source, path: &str) -> Result<Option<Checkpoint>> {
    let path = path.strip_prefix("./").unwrap_or(path);
    if check_name(path).is_ok()
        && let Some(checkpoint) = of_prefix_or_nothing(source, path)?
    {
        return Ok(Some(checkpoint));
    }
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    if check_name(name).is_ok() { of_prefix_or_nothing(source, name) } else { Ok(None) }
}

/// As [`of_prefix`], in a sub-folder that may not be there.
fn of_prefix_or_nothing(source: &dyn Source, prefix: &str) -> Result<Option<Checkpoint>> {
    let folder = prefix.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
    match folder {
        Some(folder) if !source.list(&folder).is_ok_and(|names| !names.is_empty()) => Ok(None),
        _ => of_prefix(source, prefix),
    }
}

/// Every checkpoint of a folder, by its prefix: all bundles, or else the V1 files. These have no ending
/// of their own, so that only files that are called checkpoints, and the first shards of sets, are looked into.
fn candidates(source: &dyn Source) -> Result<Vec<(String, Checkpoint)>> {
    let names = source.list("")?;
    let visible = || names.iter().map(String::as_str).filter(|name| !name.starts_with('.'));
    let mut found: Vec<(String, Checkpoint)> = Vec::new();
    for prefix in visible().filter_map(|name| name.strip_suffix(INDEX_SUFFIX)) {
        if is_bundle(source, prefix)? {
            found.push((prefix.to_owned(), Checkpoint::V2(prefix.to_owned())));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let may_be_v1 = |name: &&str| match v1_shard(name) {
        Some(shard) => shard.number == 0,
        None => name.contains("ckpt") && !name.ends_with(META_SUFFIX),
    };
    for name in visible().filter(may_be_v1) {
        if !has_magic(source, source.open(name)?)? {
            continue;
        }
        let prefix = v1_shard(name).map_or(name, |shard| shard.stem);
        if found.iter().all(|(known, _)| known != prefix)
            && let Some(checkpoint) = of_prefix(source, name)?
        {
            found.push((prefix.to_owned(), checkpoint));
        }
    }
    Ok(found)
}

/// Whether a prefix's index is one: other programs have files that end so. A broken one has its data
/// files beside it.
pub(crate) fn is_bundle(source: &dyn Source, prefix: &str) -> Result<bool> {
    let index = source.open(&format!("{prefix}{INDEX_SUFFIX}"))?;
    Ok(has_magic(source, index)? || has_data_files(source, prefix)?)
}

fn several(found: &[(String, Checkpoint)]) -> Error {
    Error::usage("the folder holds several checkpoints: name one of them").found(names_of(found))
}

/// Files begin with a prefix that is no checkpoint's: the folder's checkpoints are listed. That the user
/// means one of them is certain where one begins with the other.
fn no_such_prefix(source: &dyn Source, prefix: &str) -> Result<Error> {
    let found = candidates(source)?;
    if found.is_empty() {
        return Ok(nothing(prefix));
    }
    let is_begun = found.iter().any(|(name, _)| name.starts_with(prefix) || prefix.starts_with(name));
    let error = if is_begun { Error::usage } else { Error::malformed };
    let error = error("no checkpoint of the folder has this prefix").file(prefix);
    Ok(error.expected(format!("one of {}", names_of(&found))))
}

fn names_of(found: &[(String, Checkpoint)]) -> String {
    listed(found.iter().map(|(name, _)| format!("{name:?}")), MOST_LISTED)
}

fn nothing(name: &str) -> Error {
    Error::malformed("not a TensorFlow checkpoint, nor a prefix of one")
        .file(name)
        .expected("a prefix, an index, a data file, a V1 file, or a folder of them")
}

#[cfg(test)]
mod tests;
