//! Finds the folders of the trees to read. If the input is a tree, the result is its own folder. If
//! the input is a step, the result contains the folders of its items. In a run, the latest step is
//! read.

use crate::aggregate::{self, AGGREGATE};
use crate::metadata::METADATA;
use crate::span::MANIFEST;
use tensorferry_sdk::{Context, Entry, Error, Result, Source};

/// The text that is part of a folder's name while the folder is being written.
const UNFINISHED: &str = ".orbax-checkpoint-tmp";
/// The file of a step that contains its commit time, and the maximum number of bytes to read from
/// this file.
const STEP_METADATA: &str = "_CHECKPOINT_METADATA";
const MAX_STEP_METADATA: u64 = 1 << 20;
/// Marker file of a committed step. Some steps do not have this file.
const COMMITTED: &str = "commit_success.txt";

/// Name prefix of the folders in which each process writes a separate store. Orbax merges these
/// stores when it commits the step.
const PROCESS: &str = "ocdbt.process_";

/// Names of the folders for random keys. Orbax's handlers for random keys create these folders
/// inside an item.
const RANDOM_KEYS: [&str; 2] = ["jax_random_key", "np_random_key"];

/// Returns whether the entry is a file that occurs only in trees.
pub(crate) fn is_tree_name(entry: &Entry) -> bool {
    matches!(entry, Entry::File(name) if [METADATA, MANIFEST].contains(&&**name))
}

/// Returns whether the entry is a file that the user may pass instead of its folder.
pub(crate) fn is_tree_file(entry: &Entry) -> bool {
    is_tree_name(entry) || matches!(entry, Entry::File(name) if name == AGGREGATE)
}

/// Returns whether the folder of the source contains folders of zarr arrays.
pub(crate) fn has_arrays(source: &dyn Source) -> Result<bool> {
    for name in subfolders(source, "")? {
        if is_array(source, &name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn is_array(source: &dyn Source, folder: &str) -> Result<bool> {
    Ok(source.contains(&format!("{folder}/.zarray"))? || source.contains(&format!("{folder}/zarr.json"))?)
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CheckpointLayout {
    /// The folder and the item name of each tree. A folder name is empty or ends with a slash.
    Trees(Vec<(String, String)>),
    /// A folder of zarr arrays without a tree.
    Arrays(String),
    /// The source is not a checkpoint. `is_unfinished` is set if it contains an unfinished
    /// checkpoint.
    Nothing { is_unfinished: bool },
}

/// Returns whether a folder with this name contains the store of one process.
pub(crate) fn is_process_folder(name: &str) -> bool {
    name.starts_with(PROCESS)
}

/// Returns whether a folder contains stores of processes that have not been merged.
fn is_unmerged(source: &dyn Source, folder: &str) -> Result<bool> {
    Ok(source.contains(&format!("{folder}{PROCESS}0/{MANIFEST}"))? && !is_tree(source, folder)?)
}

/// Returns whether a step was never committed, according to its stores and timestamps. In an object
/// store, the folder name does not show this.
fn is_uncommitted(source: &dyn Source, folder: &str) -> Result<bool> {
    if is_unmerged(source, folder)? {
        return Ok(true);
    }
    let name = format!("{folder}{STEP_METADATA}");
    if !source.contains(&name)? || source.contains(&format!("{folder}{COMMITTED}"))? {
        return Ok(false);
    }
    let (file, limits) = (source.open(&name)?, tensorferry_sdk::Limits::default());
    let bytes = source.read_vec(file, 0, source.len(file).min(MAX_STEP_METADATA), &limits)?;
    let Ok(times) = crate::json::Json::parse(&bytes, &limits) else { return Ok(false) };
    let is_number = |key| matches!(times.get(key), crate::json::Json::Int(_));
    Ok(is_number("init_timestamp_nsecs") && !is_number("commit_timestamp_nsecs"))
}

/// Returns whether the source's folder, or a step in it, was started but never committed.
pub(crate) fn has_uncommitted(source: &dyn Source) -> Result<bool> {
    if is_uncommitted(source, "")? {
        return Ok(true);
    }
    for name in subfolders(source, "")?.iter().filter(|name| step(name).is_some()) {
        if is_uncommitted(source, &format!("{name}/"))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_tree(source: &dyn Source, folder: &str) -> Result<bool> {
    Ok(source.contains(&format!("{folder}{METADATA}"))?
        || source.contains(&format!("{folder}{MANIFEST}"))?
        || aggregate::is_in(source, folder)?)
}

/// Returns the names of the folders inside a folder.
pub(crate) fn subfolders(source: &dyn Source, folder: &str) -> Result<Vec<String>> {
    let names = source.folders(folder)?.into_iter();
    Ok(names
        .map(|name| name.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned())
        .collect())
}

/// Parses the step number in a folder's name, which consists of digits or of a prefix and digits.
fn step(name: &str) -> Option<u64> {
    let start = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let is_named = (start == 0 || name[..start].ends_with('_')) && !is_process_folder(name);
    name[start..].parse().ok().filter(|_| is_named)
}

/// Finds the trees in the source's folder.
pub(crate) fn locate(source: &dyn Source, context: Option<&dyn Context>) -> Result<CheckpointLayout> {
    if is_uncommitted(source, "")? {
        return Ok(CheckpointLayout::Nothing { is_unfinished: true });
    }
    if is_tree(source, "")? {
        return Ok(CheckpointLayout::Trees(vec![(String::new(), String::new())]));
    }
    let names = subfolders(source, "")?;
    let (unfinished, names): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| name.contains(UNFINISHED));
    let mut steps: Vec<(u64, &String)> = names.iter().filter_map(|name| Some((step(name)?, name))).collect();
    steps.sort_unstable();
    let mut has_uncommitted = false;
    while let Some((_, latest)) = steps.pop() {
        let folder = format!("{latest}/");
        if is_uncommitted(source, &folder)? {
            if let Some(context) = context {
                context.note(&format!("step {latest:?} was never committed and is skipped"));
            }
            has_uncommitted = true;
            continue;
        }
        let trees = items(source, &folder)?;
        if !trees.is_empty() {
            if let (Some(context), false) = (context, steps.is_empty()) {
                context.note(&format!("reading the latest step {latest:?}; {} earlier steps", steps.len()));
            }
            return Ok(CheckpointLayout::Trees(trees));
        }
    }
    // Items are not searched here, because an uncommitted step would be read as an item of the run.
    if has_uncommitted {
        return Ok(CheckpointLayout::Nothing { is_unfinished: true });
    }
    let trees = items(source, "")?;
    if !trees.is_empty() {
        return Ok(CheckpointLayout::Trees(trees));
    }
    if has_arrays(source)? {
        return Ok(CheckpointLayout::Arrays(String::new()));
    }
    Ok(CheckpointLayout::Nothing { is_unfinished: !unfinished.is_empty() })
}

/// Returns the trees of a step. If the step's folder is a tree, the result contains only this tree.
/// Otherwise, it contains the step's items.
fn items(source: &dyn Source, folder: &str) -> Result<Vec<(String, String)>> {
    if !folder.is_empty() && is_tree(source, folder)? {
        return Ok(vec![(folder.to_owned(), String::new())]);
    }
    let mut trees = Vec::new();
    for name in subfolders(source, folder.trim_end_matches('/'))? {
        let item = format!("{folder}{name}/");
        if name.contains(UNFINISHED) || is_process_folder(&name) {
            continue;
        }
        if is_tree(source, &item)? {
            trees.push((item, name));
            continue;
        }
        if is_unmerged(source, &item)? {
            return Err(not_found_error(true).file(item));
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

/// Returns the error for a folder without a checkpoint.
pub(crate) fn not_found_error(is_unfinished: bool) -> Error {
    if is_unfinished {
        return Error::malformed("the checkpoint was never finished: the folder has no committed step");
    }
    Error::malformed("the folder has no Orbax checkpoint")
        .expected("_METADATA, manifest.ocdbt, a msgpack file named checkpoint, steps or zarr arrays")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    /// In an object store, an unfinished folder already has its final name, but the step's metadata
    /// has no commit time.
    #[test]
    fn a_step_that_was_never_committed_is_not_read() {
        let times = |commit: &str| {
            format!(r#"{{"init_timestamp_nsecs":1,"commit_timestamp_nsecs":{commit}}}"#).into_bytes()
        };
        let of = |files: &[(&str, Vec<u8>)]| {
            let context = MemoryContext::default();
            let found = locate(&MemorySource::folder(files.to_vec()), Some(&context)).unwrap();
            (found, context.notes().len())
        };
        let tree =
            |name: &str| CheckpointLayout::Trees(vec![(format!("{name}/default/"), "default".to_owned())]);
        let [one, two] = ["1/default/_METADATA", "2/default/_METADATA"].map(|name| (name, b"{}".to_vec()));
        let begun = ("2/_CHECKPOINT_METADATA", times("null"));
        assert_eq!(of(&[one.clone(), two.clone(), ("2/_CHECKPOINT_METADATA", times("2"))]).0, tree("2"));
        assert_eq!(of(&[one, two.clone(), begun.clone()]), (tree("1"), 1));
        assert_eq!(of(&[two, begun]).0, CheckpointLayout::Nothing { is_unfinished: true });
        let [step, begun] = ["2/_METADATA", "2/_CHECKPOINT_METADATA"].map(|name| (name, times("null")));
        assert_eq!(of(&[step, begun]).0, CheckpointLayout::Nothing { is_unfinished: true });
        let whole = [("_METADATA", b"{}".to_vec()), ("_CHECKPOINT_METADATA", times("null"))];
        assert_eq!(of(&whole).0, CheckpointLayout::Nothing { is_unfinished: true });
        // In older versions of Orbax, the step's metadata does not contain times.
        let old = [("_METADATA", b"{}".to_vec()), ("_CHECKPOINT_METADATA", b"{}".to_vec())];
        assert!(matches!(of(&old).0, CheckpointLayout::Trees(_)));
    }

    /// The store of a single process contains only some of the tensors, so ferry does not read it
    /// as a step.
    #[test]
    fn stores_of_processes_that_were_never_merged_are_not_read() {
        let of = |names: &[&str]| {
            let source = MemorySource::folder(names.iter().map(|name| (*name, b"{}".to_vec())));
            locate(&source, Some(&MemoryContext::default()))
        };
        let stores = ["ocdbt.process_0/manifest.ocdbt", "ocdbt.process_1/manifest.ocdbt"];
        assert_eq!(of(&stores).unwrap(), CheckpointLayout::Nothing { is_unfinished: true });
        assert_eq!(of(&stores[1..]).unwrap(), CheckpointLayout::Nothing { is_unfinished: false });
        let merged = of(&[stores[0], stores[1], "manifest.ocdbt"]).unwrap();
        assert_eq!(merged, CheckpointLayout::Trees(vec![(String::new(), String::new())]));
        let step = of(&["1/_METADATA", "2/ocdbt.process_0/manifest.ocdbt"]).unwrap();
        assert_eq!(step, CheckpointLayout::Trees(vec![("1/".to_owned(), String::new())]));
        let item = of(&["1/params/_METADATA", "1/state/ocdbt.process_0/manifest.ocdbt"]).unwrap_err();
        assert!(item.to_string().contains("never finished"), "{item}");
    }
}
