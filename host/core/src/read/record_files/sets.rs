//! A set is a group of files in a folder that belong together according to their names. A set
//! contains the files of a split, the shards with the same name, or all remaining files.

use super::DATA;
use super::shards::shard_of;
use crate::formats::registry::RegisteredFormat;
use crate::read::account::EntrySet;
use crate::read::folder::{EntryKind, FolderEntry};
use crate::read::own_files::is_own;
use crate::read::source::FileSource;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use tensorferry_sdk::file_name::uncompressed;
use tensorferry_sdk::{Description, Error, Limits, Result, Source, listed};

/// Common splits, and the words that identify each split.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "val", "dev"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];
/// Files that list splits. The next constant is the maximum number of bytes to read from such a
/// file.
const INFO: &str = "dataset_info.json";
const DICT: &str = "dataset_dict.json";
const MAX_INFO: u64 = 16 << 20;
/// Suffixes of files that contain the index of a data file.
const INDEXES: [&str; 2] = [".idx", ".index"];
/// Maximum number of sets to list in an error.
const MAX_LISTED: usize = 8;

/// A group of files that belong together.
pub(super) struct Set<'a> {
    /// The name of the split, or the common prefix of the shards. `None` for the set of all other
    /// files.
    pub(super) name: Option<String>,
    pub(super) files: Vec<&'a str>,
}

/// Returns the error for an input that has several sets if the user has not chosen a set.
pub(super) fn ambiguous_sets(sets: &[Set<'_>], description: &Description) -> Error {
    let found = sets.iter().map(|set| {
        let name = set.name.as_deref().map_or("others".to_owned(), |name| format!("{name:?}"));
        let files = set.files.len();
        format!("{name} ({files} file{}, {:?})", if files == 1 { "" } else { "s" }, set.files[0])
    });
    // Sets with the same name differ in their number of shards.
    let is_unique = |name: &String| sets.iter().filter(|set| set.name.as_ref() == Some(name)).count() == 1;
    let parts = sets.iter().filter_map(|set| {
        let name = set.name.as_ref()?;
        let shard = shard_of(set.files[0]).filter(|_| !is_unique(name));
        Some(shard.map_or(format!("--part {name}"), |shard| format!("-i 'files={}'", shard.pattern())))
    });
    let every = description.suffixes.first().map_or("", String::as_str);
    Error::usage(format!("the input has several datasets or splits: {}", listed(found, MAX_LISTED))).hint(
        format!(
            "pass {}, -i 'files=GLOB', or -i 'files=**/*{every}*' for all of them",
            listed(parts, MAX_LISTED)
        ),
    )
}

/// Returns the error for a split or set that does not exist. `wanted` is the name that the user
/// passed.
pub(super) fn no_such_split(sets: &[Set<'_>], wanted: &str) -> Error {
    let names = sets.iter().filter_map(|set| Some(format!("--part {}", set.name.as_ref()?)));
    let names = listed(names, MAX_LISTED);
    let error = Error::usage(format!("no such split or set: {wanted:?}"));
    error.hint(format!("pass {names}, or -i 'files=GLOB'"))
}

/// A set that the user chose.
#[derive(Debug, Clone)]
pub(super) struct ChosenSet {
    pub(super) name: String,
    pub(super) splits: Splits,
}

impl EntrySet for ChosenSet {
    fn contains(&self, entry: &FolderEntry) -> bool {
        let of_shard = || shard_of(uncompressed(&entry.name)).map(|shard| shard.stem.to_owned());
        let set = self.splits.of_path(&entry.name).or_else(of_shard);
        set.as_ref() == Some(&self.name) || entry.kind == EntryKind::Folder && entry.name == DATA
    }
}

/// The words that identify the splits of a dataset.
#[derive(Debug, Clone)]
pub(super) struct Splits {
    /// The splits that the dataset itself lists, longest first.
    own: Vec<String>,
    folder: PathBuf,
}

impl Splits {
    pub(super) fn of(source: &FileSource) -> Self {
        let mut own = listed_splits(source).unwrap_or_default();
        own.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self { own, folder: source.folder().to_owned() }
    }

    /// Returns the split that a file belongs to, based on the name of the file or of a folder that
    /// contains it.
    pub(super) fn of_path(&self, path: &str) -> Option<String> {
        let own = self.own.iter().find(|name| find_word(path, name).is_some());
        if let Some(own) = own {
            return Some(own.clone());
        }
        let words = SPLITS.iter().flat_map(|(split, words)| words.iter().map(move |word| (*split, *word)));
        let lower = path.to_ascii_lowercase();
        let found = words.filter_map(|(split, word)| Some((find_word(&lower, word)?, split)));
        // The last split word in the path decides: `test_suite/train.parquet` is in the split
        // `train`.
        found.max().map(|(_, split)| split.to_owned())
    }

    /// Groups the files of a format into sets, by the split names and shard names in their paths.
    pub(super) fn sets<'a>(&self, listed: &'a [String], format: &RegisteredFormat) -> Vec<Set<'a>> {
        let suffixes = &format.description.suffixes;
        let is_called = |name: &str| {
            let name = name.to_ascii_lowercase();
            suffixes.iter().any(|suffix| name.contains(suffix.as_str()))
        };
        // Files in folders such as `split=train/` are not included, because these folders contain
        // column values.
        let is_visible =
            |name: &str| !name.split('/').any(|part| part.starts_with(['.', '_']) || part.contains('='));
        let all: HashSet<&str> = listed.iter().map(String::as_str).collect();
        let is_index =
            |name: &str| INDEXES.iter().any(|end| name.strip_suffix(end).is_some_and(|of| all.contains(of)));
        let is_data = |name: &&str| is_visible(name) && !is_index(name) && !is_own(&self.folder, name);
        let visible: Vec<&str> = listed.iter().map(String::as_str).filter(is_data).collect();
        let called: Vec<&str> = visible
            .iter()
            .copied()
            .filter(|name| is_called(name) || shard_of(name).is_some_and(|shard| shard.ending.is_empty()))
            .collect();
        // Shards with a different count belong to a different version of the set.
        let mut sets: BTreeMap<Option<(String, u64)>, Vec<&str>> = BTreeMap::new();
        for name in if called.is_empty() { &visible } else { &called } {
            let shard = shard_of(name);
            let set = self.of_path(name).or_else(|| Some(shard?.stem.to_owned()));
            let count = shard.map_or(0, |shard| shard.count);
            sets.entry(set.map(|set| (set, count))).or_default().push(name);
        }
        if called.is_empty() {
            // The files in the set without a name are not data: neither a suffix of the format nor
            // a shard number identifies them.
            sets.remove(&None);
        }
        sets.into_iter().map(|(key, files)| Set { name: key.map(|(name, _)| name), files }).collect()
    }
}

/// Returns the position in the path at which the word occurs as a separate word.
fn find_word(path: &str, word: &str) -> Option<usize> {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphabetic());
    let found = path.match_indices(word).map(|(at, _)| at).filter(|&at| {
        is_apart(path[..at].chars().next_back()) && is_apart(path[at + word.len()..].chars().next())
    });
    found.last()
}

/// Checks that every split has its folder, if the library `datasets` has saved several splits in
/// one folder.
pub(super) fn check_saved(source: &FileSource) -> Result<()> {
    let folders = source.folders("").unwrap_or_default();
    match read_split_names(DICT, source)
        .unwrap_or_default()
        .into_iter()
        .find(|split| !folders.contains(split))
    {
        Some(missing) => Err(Error::malformed("the dataset lists a split whose folder is missing")
            .file(DICT)
            .expected(format!("{missing:?}"))
            .hint("pass --part with an existing split")),
        None => Ok(()),
    }
}

/// Returns the names of the splits that a dataset's own files list.
fn listed_splits(source: &FileSource) -> Option<Vec<String>> {
    read_split_names(INFO, source).or_else(|| read_split_names(DICT, source))
}

/// Parses the splits that a file lists. `tensorflow_datasets` writes `[{"name": NAME}, ...]`, and
/// `datasets` writes `{NAME: ...}` or `[NAME, ...]`.
fn read_split_names(file: &str, source: &FileSource) -> Option<Vec<String>> {
    let source = source.in_folder("");
    if !source.contains(file).ok()? {
        return None;
    }
    let file = source.open(file).ok()?;
    let text = source.read_vec(file, 0, source.len(file).min(MAX_INFO), &Limits::default()).ok()?;
    let info: serde_json::Value = serde_json::from_slice(&text).ok()?;
    match info.get("splits")? {
        serde_json::Value::Object(splits) => Some(splits.keys().cloned().collect()),
        serde_json::Value::Array(splits) => {
            let name =
                |split: &serde_json::Value| split.get("name").unwrap_or(split).as_str().map(str::to_owned);
            Some(splits.iter().filter_map(name).collect())
        }
        _ => None,
    }
}
