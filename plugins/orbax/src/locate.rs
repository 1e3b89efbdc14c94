//! Which folders are meant: a tree is itself, a step its items, a run its latest step.

use crate::aggregate::{self, AGGREGATE};
use crate::metadata::METADATA;
use crate::span::MANIFEST;
use tensorferry_sdk::{Context, Entry, Error, Result, Source};

/// What a folder is called until all of it is there.
const UNFINISHED: &str = ".orbax-checkpoint-tmp";

/// The folders of a key of a random generator in an item, as Orbax' handlers for keys make them.
const RANDOM_KEYS: [&str; 2] = ["jax_random_key", "np_random_key"];

/// Whether a file is named that every tree has.
pub(crate) fn names_a_tree(entry: &Entry) -> bool {
    matches!(entry, Entry::File(name) if [METADATA, MANIFEST].contains(&&**name))
}

/// Whether the file that is named stands for its folder.
pub(crate) fn is_tree_file(entry: &Entry) -> bool {
    names_a_tree(entry) || matches!(entry, Entry::File(name) if name == AGGREGATE)
}

/// Whether a folder in the source's is an array of zarr.
pub(crate) fn has_arrays(source: &dyn Source) -> Result<bool> {
    for name in below(source, "")? {
        if is_array(source, &name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a folder is an array of zarr.
pub(crate) fn is_array(source: &dyn Source, folder: &str) -> Result<bool> {
    Ok(source.contains(&format!("{folder}/.zarray"))? || source.contains(&format!("{folder}/zarr.json"))?)
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Folders of trees, each with its item's name; the folder's name ends in a slash where it has one.
    Trees(Vec<(String, String)>),
    /// A folder of zarr arrays without a tree.
    Arrays(String),
    /// Nothing; whether something unfinished is there.
    Nothing { is_unfinished: bool },
}

fn is_tree(source: &dyn Source, folder: &str) -> Result<bool> {
    Ok(source.contains(&format!("{folder}{METADATA}"))?
        || source.contains(&format!("{folder}{MANIFEST}"))?
        || aggregate::is_in(source, folder)?)
}

/// The names of the folders in a folder.
pub(crate) fn below(source: &dyn Source, folder: &str) -> Result<Vec<String>> {
    let names = source.folders(folder)?.into_iter();
    Ok(names
        .map(|name| name.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned())
        .collect())
}

/// The number of a step's folder: digits, perhaps after a prefix.
fn step(name: &str) -> Option<u64> {
    let start = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let is_named = start == 0 || name[..start].ends_with('_');
    name[start..].parse().ok().filter(|_| is_named)
}

/// The trees that the source's folder stands for.
pub(crate) fn locate(source: &dyn Source, context: Option<&dyn Context>) -> Result<Found> {
    if is_tree(source, "")? {
        return Ok(Found::Trees(vec![(String::new(), String::new())]));
    }
    let names = below(source, "")?;
    let (unfinished, names): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| name.contains(UNFINISHED));
    let mut steps: Vec<(u64, &String)> = names.iter().filter_map(|name| Some((step(name)?, name))).collect();
    steps.sort_unstable();
    while let Some((_, latest)) = steps.pop() {
        let folder = format!("{latest}/");
        let trees = items(source, &folder)?;
        if !trees.is_empty() {
            if let (Some(context), false) = (context, steps.is_empty()) {
                context.note(&format!("reading step {latest:?}, the latest; {} before it", steps.len()));
            }
            return Ok(Found::Trees(trees));
        }
    }
    let trees = items(source, "")?;
    if !trees.is_empty() {
        return Ok(Found::Trees(trees));
    }
    if has_arrays(source)? {
        return Ok(Found::Arrays(String::new()));
    }
    Ok(Found::Nothing { is_unfinished: !unfinished.is_empty() })
}

/// The trees of a step: the folder itself, or its items.
fn items(source: &dyn Source, folder: &str) -> Result<Vec<(String, String)>> {
    if !folder.is_empty() && is_tree(source, folder)? {
        return Ok(vec![(folder.to_owned(), String::new())]);
    }
    let mut trees = Vec::new();
    for name in below(source, folder.trim_end_matches('/'))? {
        let item = format!("{folder}{name}/");
        if name.contains(UNFINISHED) {
            continue;
        }
        if is_tree(source, &item)? {
            trees.push((item, name));
            continue;
        }
        for key in RANDOM_KEYS {
            let item = format!("{item}{key}/");
            if is_tree(source, &item)? {
                trees.push((item, name.clone()));
            }
        }
    }
    Ok(trees)
}

/// Why there is nothing.
pub(crate) fn nothing(is_unfinished: bool) -> Error {
    if is_unfinished {
        return Error::malformed("a checkpoint that was not finished: only its temporary folder is there");
    }
    Error::malformed("no Orbax checkpoint here")
        .expected("_METADATA, manifest.ocdbt, a msgpack file called checkpoint, steps or arrays of zarr")
}
