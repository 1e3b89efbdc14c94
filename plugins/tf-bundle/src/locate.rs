//! Locating: what the user pointed at becomes a checkpoint of one of the two versions.
//!
//! ```text
//! V2    P.index, P.data-00000-of-00001, ...    P is the prefix: there is no file of that name
//! V1    P, or P-00000-of-00002, ...            each file a table of its own
//! both  P.meta (a graph), checkpoint (which of a folder's checkpoints is the latest)
//! ```
//! Sources: tensorflow/core/util/tensor_bundle/naming.cc, tensorflow/python/training/saver.py and
//! checkpoint_management.py.

use crate::bundle::{DataFileName, INDEX_SUFFIX};
use crate::state_file::{self, STATE_FILE};
use crate::table::has_magic;
use tensorferry_sdk::{Context, Entry, Error, Result, Source, check_name};

/// The ending of the graph beside a checkpoint.
const META_SUFFIX: &str = ".meta";
/// What stands for the shard in the name that TensorFlow gives to a sharded V1 checkpoint.
const ANY_SHARD: &str = "-?????-of-";
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
/// stands for its latest.
///
/// # Errors
/// Malformed, if there is none, or not all of it; usage, if there are several to choose from; i/o.
pub(crate) fn locate(source: &dyn Source, context: &dyn Context) -> Result<Checkpoint> {
    match source.entry() {
        Entry::File(name) if name == STATE_FILE => in_folder(source, context),
        Entry::File(name) => of_file(source, name),
        Entry::Prefix(prefix) => match of_prefix(source, prefix)? {
            Some(checkpoint) => Ok(checkpoint),
            None => Err(nothing(prefix)),
        },
        Entry::Folder => in_folder(source, context),
    }
}

/// The checkpoint of one of its files.
fn of_file(source: &dyn Source, name: &str) -> Result<Checkpoint> {
    if let Some(prefix) = name.strip_suffix(INDEX_SUFFIX) {
        return Ok(Checkpoint::V2(prefix.to_owned()));
    }
    let prefix = DataFileName::parse(name).map(|data| data.prefix).or(name.strip_suffix(META_SUFFIX));
    match of_prefix(source, prefix.unwrap_or(name))? {
        Some(checkpoint) => Ok(checkpoint),
        None if prefix.is_some() => {
            Err(Error::malformed("the checkpoint that this file is part of has no index").file(name))
        }
        None => Err(nothing(name)),
    }
}

/// The checkpoint of a prefix. As in TensorFlow, a bundle is taken before a V1 file.
fn of_prefix(source: &dyn Source, prefix: &str) -> Result<Option<Checkpoint>> {
    if source.contains(&format!("{prefix}{INDEX_SUFFIX}")) {
        return Ok(Some(Checkpoint::V2(prefix.to_owned())));
    }
    if let Some(shard) = ShardName::parse(prefix) {
        return shards(source, shard).map(Some);
    }
    if source.contains(prefix) && has_magic(source, source.open(prefix)?)? {
        return Ok(Some(Checkpoint::V1(vec![prefix.to_owned()])));
    }
    let names = source.list(&format!("{prefix}-"))?;
    let mut sets =
        names.iter().filter_map(|name| ShardName::parse(name)).filter(|name| name.prefix == prefix);
    sets.next().map(|shard| shards(source, shard)).transpose()
}

/// The name of a V1 shard, or of all of them, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShardName<'a> {
    prefix: &'a str,
    /// The digits that say how many there are.
    count: &'a str,
}

impl<'a> ShardName<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let (rest, count) = name.rsplit_once("-of-")?;
        let (prefix, shard) = rest.rsplit_once('-')?;
        let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_any = name.ends_with(&format!("{ANY_SHARD}{count}"));
        (is_number(count) && (is_any || is_number(shard))).then_some(Self { prefix, count })
    }
}

/// All the files of a sharded V1 checkpoint.
fn shards(source: &dyn Source, shard: ShardName<'_>) -> Result<Checkpoint> {
    let ShardName { prefix, count } = shard;
    let names = source.list(&format!("{prefix}-"))?;
    let files: Vec<String> = names.into_iter().filter(|name| ShardName::parse(name) == Some(shard)).collect();
    if count.parse() != Ok(files.len()) {
        return Err(Error::malformed("not all files of a sharded V1 checkpoint are there")
            .file(format!("{prefix}{ANY_SHARD}{count}"))
            .expected(format!("{count} files"))
            .found(files.len()));
    }
    Ok(Checkpoint::V1(files))
}

/// The folder's latest checkpoint, or its only one.
fn in_folder(source: &dyn Source, context: &dyn Context) -> Result<Checkpoint> {
    let mut missing = None;
    if source.contains(STATE_FILE) {
        let latest = latest(source, context)?;
        if let Some(checkpoint) = of_state(source, &latest)? {
            return Ok(checkpoint);
        }
        missing = Some(latest);
    }
    let mut found = candidates(source)?;
    match (found.len(), missing) {
        (0, None) => Err(Error::malformed("the folder holds no checkpoint")),
        (0, Some(latest)) => Err(Error::malformed("the latest checkpoint of the folder is not there")
            .file(STATE_FILE)
            .expected(format!("{latest:?}"))),
        (1, missing) => {
            if let Some(latest) = missing {
                let only = found.first().map(|(name, _)| name.as_str()).unwrap_or_default();
                context.note(&format!("{latest:?} is the latest, and is not there: reading {only:?}"));
            }
            found.pop().map(|(_, checkpoint)| checkpoint).ok_or_else(|| nothing(""))
        }
        (count, _) => {
            let listed: Vec<String> =
                found.iter().take(MOST_LISTED).map(|(name, _)| format!("{name:?}")).collect();
            let more = if count > MOST_LISTED {
                format!(" and {} more", count - MOST_LISTED)
            } else {
                String::new()
            };
            Err(Error::usage("the folder holds several checkpoints: name one of them")
                .found(format!("{}{more}", listed.join(", "))))
        }
    }
}

/// The prefix that the folder's state file gives as the latest.
fn latest(source: &dyn Source, context: &dyn Context) -> Result<String> {
    let limits = context.limits();
    let file = source.open(STATE_FILE)?;
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

/// Every checkpoint of a folder without a state file, by its prefix: all bundles, or else the V1
/// files. These have no ending of their own, so that only files called so are looked into.
fn candidates(source: &dyn Source) -> Result<Vec<(String, Checkpoint)>> {
    let names = source.list("")?;
    let visible = || names.iter().map(String::as_str).filter(|name| !name.starts_with('.'));
    let bundles: Vec<_> = visible()
        .filter_map(|name| name.strip_suffix(INDEX_SUFFIX))
        .map(|prefix| (prefix.to_owned(), Checkpoint::V2(prefix.to_owned())))
        .collect();
    if !bundles.is_empty() {
        return Ok(bundles);
    }
    let mut found: Vec<(String, Checkpoint)> = Vec::new();
    for name in visible().filter(|name| name.contains("ckpt") && !name.ends_with(META_SUFFIX)) {
        if DataFileName::parse(name).is_some() || !has_magic(source, source.open(name)?)? {
            continue;
        }
        let prefix = ShardName::parse(name).map_or(name, |shard| shard.prefix);
        if found.iter().all(|(known, _)| known != prefix)
            && let Some(checkpoint) = of_prefix(source, name)?
        {
            found.push((prefix.to_owned(), checkpoint));
        }
    }
    Ok(found)
}

fn nothing(name: &str) -> Error {
    Error::malformed("not a TensorFlow checkpoint, nor a prefix of one")
        .file(name)
        .expected("a prefix, an index, a data file, a V1 file, or a folder of them")
}

#[cfg(test)]
#[path = "locate_tests.rs"]
mod tests;
