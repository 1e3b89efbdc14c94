//! Finds the checkpoint for the file, prefix or folder that the user passes.
//!
//! ```text
//! V2    P.index, P.data-00000-of-00001, ...    P is the prefix; no file has exactly that name
//! V1    P, or P-00000-of-00002, ...            each file is a table
//! both  P.meta (a graph), checkpoint (names the latest checkpoint of the folder)
//! ```
//! Sources: tensorflow/core/util/tensor_bundle/naming.cc, tensorflow/python/training/saver.py and
//! checkpoint_management.py.

use crate::bundle::{INDEX_SUFFIX, data_file, has_data_files};
use crate::state_file::{self, STATE_FILE};
use crate::table::has_magic;
use tensorferry_sdk::{Entry, Error, Limits, Loss, LossKind, Result, ShardName, Source, check_name, listed};

/// The extension of the graph file next to a checkpoint.
const META_SUFFIX: &str = ".meta";
/// The placeholder for the shard number in TensorFlow's name for a sharded V1 checkpoint.
const ANY_SHARD: &str = "-?????-of-";
/// Maximum size of a state file in bytes, which is enough for thousands of paths.
const MAX_STATE_BYTES: u64 = 4 << 20;
/// Maximum number of checkpoints that a message lists.
const MAX_LISTED: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// The prefix of a bundle.
    V2(String),
    /// A V1 checkpoint. The value contains the sorted names of the tables that contain the tensors.
    V1(Vec<String>),
}

/// Finds the checkpoint that the source's entry refers to. The entry is any file of a checkpoint, a
/// prefix, or a folder. For a folder, the result is its latest checkpoint. If that checkpoint is
/// missing, the function returns a different one, and a loss.
pub(crate) fn find(source: &dyn Source, limits: &Limits) -> Result<(Checkpoint, Option<Loss>)> {
    let checkpoint = match source.entry() {
        Entry::Folder => return in_folder(source, limits),
        Entry::File(name) if name == STATE_FILE => return in_folder(source, limits),
        Entry::File(name) => of_file(source, name)?,
        Entry::Prefix(prefix) => match of_prefix(source, prefix)? {
            Some(checkpoint) => checkpoint,
            None => return Err(prefix_not_found_error(source, prefix)?),
        },
    };
    Ok((checkpoint, None))
}

/// Returns the checkpoint that contains a file.
fn of_file(source: &dyn Source, name: &str) -> Result<Checkpoint> {
    if let Some(prefix) = name.strip_suffix(INDEX_SUFFIX) {
        return Ok(Checkpoint::V2(prefix.to_owned()));
    }
    let prefix = data_file(name).map(|(prefix, _)| prefix).or(name.strip_suffix(META_SUFFIX));
    // An existing file is not treated as a prefix. The file's folder may contain many files, so
    // ferry does not list the folder.
    match prefix.map_or_else(|| of_name(source, name), |prefix| of_prefix(source, prefix))? {
        Some(checkpoint) => Ok(checkpoint),
        None if prefix.is_some() => {
            Err(Error::malformed("the checkpoint of this file has no index").file(name))
        }
        None => Err(not_found_error(name)),
    }
}

/// Returns the checkpoint of a prefix. As in TensorFlow, a bundle takes precedence over a V1 file.
fn of_prefix(source: &dyn Source, prefix: &str) -> Result<Option<Checkpoint>> {
    if let Some(checkpoint) = of_name(source, prefix)? {
        return Ok(Some(checkpoint));
    }
    let names = source.list(&format!("{prefix}-"))?;
    let mut sets = names.iter().filter_map(|name| v1_shard(name)).filter(|name| name.stem == prefix);
    sets.next().map(|shard| shards(source, shard)).transpose()
}

/// Returns the checkpoint with exactly this name, or the sharded checkpoint that contains this file
/// as a shard.
fn of_name(source: &dyn Source, prefix: &str) -> Result<Option<Checkpoint>> {
    if source.contains(&format!("{prefix}{INDEX_SUFFIX}"))? {
        return Ok(Some(Checkpoint::V2(prefix.to_owned())));
    }
    // The name that TensorFlow uses for all shards contains a placeholder instead of a number.
    if let Some(shard) = v1_shard(&prefix.replace(ANY_SHARD, "-00000-of-")) {
        return shards(source, shard).map(Some);
    }
    if source.contains(prefix)? && has_magic(source, source.open(prefix)?)? {
        return Ok(Some(Checkpoint::V1(vec![prefix.to_owned()])));
    }
    Ok(None)
}

/// Parses a V1 checkpoint's shard name.
fn v1_shard(name: &str) -> Option<ShardName<'_>> {
    ShardName::parse(name).filter(|shard| shard.ending.is_empty())
}

/// Returns all files of a sharded V1 checkpoint.
fn shards(source: &dyn Source, shard: ShardName<'_>) -> Result<Checkpoint> {
    let names = source.list(&format!("{}-", shard.stem))?;
    let is_member = |name: &String| v1_shard(name).is_some_and(|other| other.is_of_set(&shard));
    let files: Vec<String> = names.into_iter().filter(is_member).collect();
    if shard.count != files.len() as u64 {
        return Err(Error::malformed("files of the sharded V1 checkpoint are missing")
            .file(shard.pattern())
            .expected(format!("{} files", shard.count))
            .found(files.len()));
    }
    Ok(Checkpoint::V1(files))
}

/// Returns the latest checkpoint of the folder. If no state file names it, returns the only
/// checkpoint.
fn in_folder(source: &dyn Source, limits: &Limits) -> Result<(Checkpoint, Option<Loss>)> {
    let mut missing = None;
    // If the user selected individual files, the state file is used only if the user selected it
    // too.
    if source.contains(STATE_FILE)? && source.list(STATE_FILE)?.iter().any(|name| name == STATE_FILE) {
        let latest = latest(source, limits)?;
        if let Some(checkpoint) = of_state(source, &latest)? {
            return Ok((checkpoint, None));
        }
        missing = Some(latest);
    }
    let mut found = candidates(source)?;
    match (found.pop(), missing) {
        (None, None) => Err(Error::malformed("the folder contains no checkpoint")),
        (None, Some(latest)) => Err(Error::malformed("the latest checkpoint of the folder is missing")
            .file(STATE_FILE)
            .expected(format!("{latest:?}"))),
        (Some((only, checkpoint)), missing) if found.is_empty() => {
            let why = format!(
                "{STATE_FILE:?} names it as the latest checkpoint, but it is missing; reading {only:?} instead"
            );
            Ok((checkpoint, missing.map(|latest| Loss::new(LossKind::State, latest, why))))
        }
        (Some(last), _) => {
            found.push(last);
            Err(several(&found))
        }
    }
}

/// Returns the prefix of the checkpoint that the state file names as the latest.
fn latest(source: &dyn Source, limits: &Limits) -> Result<String> {
    let file = source.open(STATE_FILE)?;
    // Other programs use the file name `checkpoint` for a whole checkpoint.
    if source.len(file) > MAX_STATE_BYTES {
        return Err(Error::malformed("the file is too long to be a state file")
            .file(STATE_FILE)
            .expected(format!("at most {MAX_STATE_BYTES} bytes"))
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

/// Returns the checkpoint for a path in the state file, if the checkpoint exists. An absolute path
/// is valid only on the machine that wrote the state file. Because the folder may have been moved,
/// only the last part of an absolute path is used.
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

/// Like [`of_prefix`], but returns `None` if the folder of the prefix does not exist.
fn of_prefix_or_nothing(source: &dyn Source, prefix: &str) -> Result<Option<Checkpoint>> {
    let folder = prefix.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
    match folder {
        Some(folder) if !source.list(&folder).is_ok_and(|names| !names.is_empty()) => Ok(None),
        _ => of_prefix(source, prefix),
    }
}

/// Returns all checkpoints of a folder by prefix: all bundles, or the V1 files if there are no
/// bundles. V1 files have no extension, so only two kinds of files are examined: files with `ckpt`
/// in their name, and the first shards of sharded checkpoints.
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

/// Returns whether the index file of a prefix belongs to a bundle. Other programs use the same
/// extension for different files. If the index is damaged, the data files next to it show that it
/// belongs to a bundle.
pub(crate) fn is_bundle(source: &dyn Source, prefix: &str) -> Result<bool> {
    let index = source.open(&format!("{prefix}{INDEX_SUFFIX}"))?;
    Ok(has_magic(source, index)? || has_data_files(source, prefix)?)
}

fn several(found: &[(String, Checkpoint)]) -> Error {
    let names = names_of(found);
    Error::usage(format!("the folder contains several checkpoints: {names}")).hint("name one of them")
}

/// Returns the error for a prefix that matches no checkpoint. The error lists the folder's
/// checkpoints. The error is a usage error if the prefix begins with a checkpoint's name, or if a
/// checkpoint's name begins with the prefix.
fn prefix_not_found_error(source: &dyn Source, prefix: &str) -> Result<Error> {
    let found = candidates(source)?;
    if found.is_empty() {
        return Ok(not_found_error(prefix));
    }
    let is_begun = found.iter().any(|(name, _)| name.starts_with(prefix) || prefix.starts_with(name));
    let error = if is_begun { Error::usage } else { Error::malformed };
    let names = names_of(&found);
    Ok(error(format!("no checkpoint has this prefix; the folder contains {names}")).file(prefix))
}

fn names_of(found: &[(String, Checkpoint)]) -> String {
    listed(found.iter().map(|(name, _)| format!("{name:?}")), MAX_LISTED)
}

fn not_found_error(name: &str) -> Error {
    Error::malformed("this is neither a TensorFlow checkpoint nor the prefix of one")
        .file(name)
        .expected("a prefix, an index, a data file, a V1 file, or a folder of them")
}

#[cfg(test)]
mod tests;
