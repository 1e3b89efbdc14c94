//! A set is the files of a folder that belong together, by their names: those of a split, the shards of one name, or all
//! that are told apart by nothing.

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

/// The splits that everybody has, and the words for each.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "val", "dev"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];
/// Where splits are listed, and how much of it is read.
const INFO: &str = "dataset_info.json";
const DICT: &str = "dataset_dict.json";
const MOST_INFO: u64 = 16 << 20;
/// What an index is called after its file.
const INDEXES: [&str; 2] = [".idx", ".index"];
/// How many sets an error lists.
const MOST_LISTED: usize = 8;

/// Files that belong together.
pub(super) struct Set<'a> {
    /// A split's name, or what the names of a set's shards begin with; `None`: all other files.
    pub(super) name: Option<String>,
    pub(super) files: Vec<&'a str>,
}

/// The error of who named none of several sets.
pub(super) fn several(sets: &[Set<'_>], description: &Description) -> Error {
    let found = sets.iter().map(|set| {
        let name = set.name.as_deref().map_or("others".to_owned(), |name| format!("{name:?}"));
        let files = set.files.len();
        format!("{name} ({files} file{}, {:?})", if files == 1 { "" } else { "s" }, set.files[0])
    });
    // Sets of one name are told apart by the number of their shards.
    let is_unique = |name: &String| sets.iter().filter(|set| set.name.as_ref() == Some(name)).count() == 1;
    let parts = sets.iter().filter_map(|set| {
        let name = set.name.as_ref()?;
        let shard = shard_of(set.files[0]).filter(|_| !is_unique(name));
        Some(shard.map_or(format!("--part {name}"), |shard| format!("-i 'files={}'", shard.pattern())))
    });
    let every = description.suffixes.first().map_or("", String::as_str);
    Error::usage("several data sets or splits, which are not read as one unless that is said")
        .expected(format!(
            "{}, or -i 'files=GLOB'; -i 'files=**/*{every}*' is all of them",
            listed(parts, MOST_LISTED)
        ))
        .found(listed(found, MOST_LISTED))
}

/// The error of who named a split that none of several sets is.
pub(super) fn no_such_split(sets: &[Set<'_>], wanted: &str) -> Error {
    let names = sets.iter().filter_map(|set| Some(format!("--part {}", set.name.as_ref()?)));
    let names = listed(names, MOST_LISTED);
    let error = Error::usage(format!("no such split or set: {wanted:?}"));
    error.expected(format!("{names}, or -i 'files=GLOB'"))
}

/// A set that the user chose among several.
#[derive(Debug, Clone)]
pub(super) struct ChosenSet {
    /// Its name.
    pub(super) name: String,
    pub(super) splits: Splits,
}

impl EntrySet for ChosenSet {
    fn is_meant(&self, entry: &FolderEntry) -> bool {
        let of_shard = || shard_of(uncompressed(&entry.name)).map(|shard| shard.stem.to_owned());
        let set = self.splits.of_path(&entry.name).or_else(of_shard);
        set.as_ref() == Some(&self.name) || entry.kind == EntryKind::Folder && entry.name == DATA
    }
}

/// The words that tell the splits of a data set.
#[derive(Debug, Clone)]
pub(super) struct Splits {
    /// Those that the data set lists for itself, the longest first.
    own: Vec<String>,
    folder: PathBuf,
}

impl Splits {
    pub(super) fn of(source: &FileSource) -> Self {
        let mut own = listed_splits(source).unwrap_or_default();
        own.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self { own, folder: source.folder().to_owned() }
    }

    /// The split that a file is of, by its name or that of a folder above it.
    pub(super) fn of_path(&self, path: &str) -> Option<String> {
        let own = self.own.iter().find(|name| mentions(path, name).is_some());
        if let Some(own) = own {
            return Some(own.clone());
        }
        let words = SPLITS.iter().flat_map(|(split, words)| words.iter().map(move |word| (*split, *word)));
        let lower = path.to_ascii_lowercase();
        let found = words.filter_map(|(split, word)| Some((mentions(&lower, word)?, split)));
        // What stands last says it: `test_suite/train.parquet`.
        found.max().map(|(_, split)| split.to_owned())
    }

    /// The files of a format by sets, those of splits and shards by their names.
    pub(super) fn sets<'a>(&self, listed: &'a [String], format: &RegisteredFormat) -> Vec<Set<'a>> {
        let suffixes = &format.description.suffixes;
        let is_called = |name: &str| {
            let name = name.to_ascii_lowercase();
            suffixes.iter().any(|suffix| name.contains(suffix.as_str()))
        };
        // Values of a column stand in the folder's name: `split=train/`.
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
        // Shards of another count are another writing of the same set.
        let mut sets: BTreeMap<Option<(String, u64)>, Vec<&str>> = BTreeMap::new();
        for name in if called.is_empty() { &visible } else { &called } {
            let shard = shard_of(name);
            let set = self.of_path(name).or_else(|| Some(shard?.stem.to_owned()));
            let count = shard.map_or(0, |shard| shard.count);
            sets.entry(set.map(|set| (set, count))).or_default().push(name);
        }
        if called.is_empty() {
            // Nothing says that the others are data at all.
            sets.remove(&None);
        }
        sets.into_iter().map(|(key, files)| Set { name: key.map(|(name, _)| name), files }).collect()
    }
}

/// Where a word stands by itself in a path.
fn mentions(path: &str, word: &str) -> Option<usize> {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphabetic());
    let found = path.match_indices(word).map(|(at, _)| at).filter(|&at| {
        is_apart(path[..at].chars().next_back()) && is_apart(path[at + word.len()..].chars().next())
    });
    found.last()
}

/// Checks that the folders of all splits are there that `datasets` has saved in one folder.
pub(super) fn check_saved(source: &FileSource) -> Result<()> {
    let folders = source.folders("").unwrap_or_default();
    match listed_in(DICT, source).unwrap_or_default().into_iter().find(|split| !folders.contains(split)) {
        Some(missing) => Err(Error::malformed("the data set lists a split whose folder is missing")
            .file(DICT)
            .expected(format!("{missing:?}, or --part with a split that is there"))),
        None => Ok(()),
    }
}

/// The splits that a data set lists.
fn listed_splits(source: &FileSource) -> Option<Vec<String>> {
    listed_in(INFO, source).or_else(|| listed_in(DICT, source))
}

/// The splits in such a file: `[{"name": NAME}, ...]` of `tensorflow_datasets`, `{NAME: ...}` or `[NAME, ...]` of `datasets`.
fn listed_in(file: &str, source: &FileSource) -> Option<Vec<String>> {
    let source = source.below("");
    if !source.contains(file).ok()? {
        return None;
    }
    let file = source.open(file).ok()?;
    let text = source.read_vec(file, 0, source.len(file).min(MOST_INFO), &Limits::default()).ok()?;
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
