//! Which files of an input of records are meant. A named file is that file. A folder, or the common start of
//! several files, is one data set, unless the names tell sets or splits apart: these are not run together
//! without a word, the user says which.
//!
//! Splits are told by the words that the Hub's library `datasets` goes by (`datasets/data_files.py`), and by the
//! names that a `dataset_info.json` lists, of `datasets` or of `tensorflow_datasets`. Where a folder has no file
//! that anybody knows, its splits may lie below it, in `data/` or in folders that are called like them.

use crate::context::session::Session;
use crate::formats::probe::probe;
use crate::formats::registry::{RegisteredFormat, Registry, holds_records};
use crate::read::file_group::{FILES, files_alone};
use crate::read::part::Part;
use crate::read::pattern::FilePattern;
use crate::read::source::FileSource;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use tensorferry_sdk::{Description, Entry, Error, ErrorKind, Limits, Result, ShardName, Source};

/// The splits that everybody has, and the words for each.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "val", "dev"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];
/// Where splits are listed, and how much of it is read.
const INFO: &str = "dataset_info.json";
const MOST_INFO: u64 = 16 << 20;
/// What an index is called after its file.
const INDEXES: [&str; 2] = [".idx", ".index"];
/// The folder of a data set's files on the Hub.
const DATA: &str = "data";
/// How deep folders of files are entered.
const MOST_DEPTH: usize = 16;
/// How many files are looked for, and how many sets an error lists.
const MOST_FILES: usize = 1 << 20;
const MOST_LISTED: usize = 8;

/// What is said of an input beside its path.
#[derive(Debug, Clone, Copy)]
pub struct InputChoice<'a> {
    /// `--from`.
    pub from: Option<&'a str>,
    /// `-i`.
    pub options: &'a [(String, String)],
    /// `--part`.
    pub part: &'a Part,
}

/// An input whose format and files are known.
pub struct FoundInput<'r> {
    /// Its files.
    pub source: FileSource,
    /// What they are.
    pub format: &'r RegisteredFormat,
    /// What the reader is told.
    pub options: Vec<(String, String)>,
    /// Whether the part was one of these splits: then all of it is meant.
    pub is_split: bool,
}

/// Finds out what a path is, and of records, which files.
///
/// # Errors
/// Usage, if there is nothing of that name, or the user has to choose; unsupported, if nobody knows it.
pub fn find<'r>(
    path: &Path,
    choice: InputChoice<'_>,
    registry: &'r Registry,
    session: &Session,
) -> Result<FoundInput<'r>> {
    find_in(FileSource::open(path, session)?, choice, registry, session)
}

/// As [`find`], of a source that has been opened.
///
/// # Errors
/// As of [`find`].
pub(crate) fn find_in<'r>(
    source: FileSource,
    choice: InputChoice<'_>,
    registry: &'r Registry,
    session: &Session,
) -> Result<FoundInput<'r>> {
    match probe(registry, &source, choice.from, session) {
        Ok(format) => choose(source, format, choice),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let (source, format) = below(&source, registry, session).ok_or(error)?;
            choose_among(source, format, choice)
        }
        Err(error) => Err(error),
    }
}

/// Chooses the files of records that are meant; an input of tensors, and files that were listed, are left as
/// they are.
///
/// # Errors
/// As of [`find`].
fn choose<'r>(
    source: FileSource,
    format: &'r RegisteredFormat,
    choice: InputChoice<'_>,
) -> Result<FoundInput<'r>> {
    if source.is_listed() || !holds_records(&format.description) {
        return Ok(FoundInput { source, format, options: choice.options.to_vec(), is_split: false });
    }
    choose_among(source, format, choice)
}

/// The files of the splits below a folder, where they are records, and no folder beside them is a model: a
/// pipeline of models may have a `test/` of its own.
fn below<'r>(
    source: &FileSource,
    registry: &'r Registry,
    session: &Session,
) -> Option<(FileSource, &'r RegisteredFormat)> {
    if *source.entry() != Entry::Folder || source.is_listed() {
        return None;
    }
    let splits = Splits::of(source);
    let mut names = Vec::new();
    for folder in source.folders("").ok()? {
        let inside = source.below(&folder);
        let is_model = |format: &RegisteredFormat| !holds_records(&format.description);
        if probe(registry, &inside, None, session).is_ok_and(is_model) {
            return None;
        }
        if folder != DATA && splits.of_path(&folder).is_none() {
            continue;
        }
        walk(source, &folder, &mut names, MOST_DEPTH).ok()?;
    }
    let below = source.with_files(names);
    let format = probe(registry, &below, None, session).ok()?;
    holds_records(&format.description).then_some((below, format))
}

/// Chooses among the sets and splits of a source of records.
///
/// # Errors
/// Usage, if the user has to choose, or chose what is not there; i/o.
fn choose_among<'r>(
    source: FileSource,
    format: &'r RegisteredFormat,
    choice: InputChoice<'_>,
) -> Result<FoundInput<'r>> {
    let InputChoice { options, part, .. } = choice;
    let all = FoundInput { source, format, options: options.to_vec(), is_split: false };
    if let Some((_, glob)) = options.iter().find(|(key, _)| key == FILES) {
        let names = matching(&all.source, glob)?;
        return Ok(all.only(names));
    }
    let listed = match all.source.entry() {
        Entry::File(_) => return Ok(all),
        Entry::Folder => all.source.list("")?,
        Entry::Prefix(prefix) => all.source.list(prefix)?,
    };
    let sets = Splits::of(&all.source).sets(&listed, format);
    let wanted = match (part, all.source.entry()) {
        (Part::Path(name), _) => Some(name),
        // `data` is the set `data-?????-of-00004` also beside `data-old-?????-of-00002`.
        (_, Entry::Prefix(prefix)) => Some(prefix),
        _ => None,
    };
    let mut chosen = sets.iter().filter(|set| wanted.is_some() && set.name.as_ref() == wanted);
    match chosen.next().filter(|_| chosen.next().is_none()) {
        Some(set) => {
            let names = set.files.iter().map(|&name| name.to_owned()).collect();
            Ok(FoundInput { is_split: matches!(part, Part::Path(_)), ..all.only(names) })
        }
        None if sets.len() > 1 => {
            let path = all.source.entry_path();
            Err(several(&sets, &format.description).file(path.display().to_string()))
        }
        None => Ok(all),
    }
}

impl FoundInput<'_> {
    /// The same input, whose reader is told this.
    #[must_use]
    pub fn with_options(&self, options: Vec<(String, String)>) -> Self {
        Self { source: self.source.afresh(), options, ..*self }
    }

    /// Of these files alone.
    fn only(self, names: Vec<String>) -> Self {
        let options: Vec<_> = self.options.iter().filter(|(key, _)| key != FILES).cloned().collect();
        let options = files_alone(self.format, &options);
        let source = self.source.with_files(names);
        Self { source, options, ..self }
    }
}

/// Files that belong together.
struct Set<'a> {
    /// A split's name, or what the names of a set's shards begin with; `None`: all other files.
    name: Option<String>,
    files: Vec<&'a str>,
}

fn several(sets: &[Set<'_>], description: &Description) -> Error {
    let listed = |of: &dyn Fn(&Set<'_>) -> Option<String>| {
        let all: Vec<String> = sets.iter().filter_map(of).collect();
        let more = all.len().saturating_sub(MOST_LISTED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", all[..all.len() - more].join(", "))
    };
    let found = listed(&|set| {
        let name = set.name.as_deref().map_or("others".to_owned(), |name| format!("{name:?}"));
        let files = set.files.len();
        Some(format!("{name} ({files} file{}, {:?})", if files == 1 { "" } else { "s" }, set.files[0]))
    });
    // Sets of one name are told apart by the number of their shards.
    let is_unique = |name: &String| sets.iter().filter(|set| set.name.as_ref() == Some(name)).count() == 1;
    let parts = listed(&|set| {
        let name = set.name.as_ref()?;
        let shard = ShardName::parse_short(set.files[0], 4).filter(|_| !is_unique(name));
        Some(shard.map_or(format!("--part {name}"), |shard| format!("-i 'files={}'", shard.pattern())))
    });
    let every = description.suffixes.first().map_or("", String::as_str);
    Error::usage("several data sets or splits, which are not read as one unless that is said")
        .expected(format!("{parts}, or -i 'files=GLOB'; -i 'files=**/*{every}*' is all of them"))
        .found(found)
}

/// The words that tell the splits of a data set.
struct Splits {
    /// Those that the data set lists for itself, the longest first.
    own: Vec<String>,
}

impl Splits {
    fn of(source: &FileSource) -> Self {
        let mut own = listed_splits(source).unwrap_or_default();
        own.sort_by_key(|name| std::cmp::Reverse(name.len()));
        Self { own }
    }

    /// The split that a file is of, by its name or that of a folder above it.
    fn of_path(&self, path: &str) -> Option<String> {
        let own = self.own.iter().find(|name| mentions(path, name).is_some());
        if let Some(own) = own {
            return Some(own.clone());
        }
        let words = SPLITS.iter().flat_map(|(split, words)| words.iter().map(move |word| (*split, *word)));
        let found = words.filter_map(|(split, word)| Some((mentions(path, word)?, split)));
        // What stands last says it: `test_suite/train.parquet`.
        found.max().map(|(_, split)| split.to_owned())
    }

    /// The files of a format by sets, those of splits and shards by their names.
    fn sets<'a>(&self, listed: &'a [String], format: &RegisteredFormat) -> Vec<Set<'a>> {
        let suffixes = &format.description.suffixes;
        let shard = |name: &'a str| {
            let ends_well = |ending: &str| ending.is_empty() || ending.starts_with('.');
            ShardName::parse_short(name, 4).filter(|shard| ends_well(shard.ending))
        };
        let is_called = |name: &str| suffixes.iter().any(|suffix| name.contains(suffix.as_str()));
        // Values of a column stand in the folder's name: `split=train/`.
        let is_visible =
            |name: &str| !name.split('/').any(|part| part.starts_with(['.', '_']) || part.contains('='));
        let all: HashSet<&str> = listed.iter().map(String::as_str).collect();
        let is_index =
            |name: &str| INDEXES.iter().any(|end| name.strip_suffix(end).is_some_and(|of| all.contains(of)));
        let visible: Vec<&str> =
            listed.iter().map(String::as_str).filter(|name| is_visible(name) && !is_index(name)).collect();
        let called: Vec<&str> = visible
            .iter()
            .copied()
            .filter(|name| is_called(name) || shard(name).is_some_and(|shard| shard.ending.is_empty()))
            .collect();
        // Shards of another count are another writing of the same set.
        let mut sets: BTreeMap<Option<(String, u64)>, Vec<&str>> = BTreeMap::new();
        for name in if called.is_empty() { &visible } else { &called } {
            let shard = shard(name);
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

/// The splits that a data set lists: `[{"name": NAME}, ...]` of `tensorflow_datasets`, `{NAME: ...}` of `datasets`.
fn listed_splits(source: &FileSource) -> Option<Vec<String>> {
    let source = source.below("");
    if !source.contains(INFO).ok()? {
        return None;
    }
    let file = source.open(INFO).ok()?;
    let text = source.read_vec(file, 0, source.len(file).min(MOST_INFO), &Limits::default()).ok()?;
    let info: serde_json::Value = serde_json::from_slice(&text).ok()?;
    match info.get("splits")? {
        serde_json::Value::Object(splits) => Some(splits.keys().cloned().collect()),
        serde_json::Value::Array(splits) => {
            Some(splits.iter().filter_map(|split| Some(split.get("name")?.as_str()?.to_owned())).collect())
        }
        _ => None,
    }
}

/// The visible files of a folder whose paths match.
fn matching(source: &FileSource, pattern: &str) -> Result<Vec<String>> {
    let option = |error: Error| error.context(format!("option {FILES}"));
    let mut names = Vec::new();
    walk(source, "", &mut names, if FilePattern::has_folders(pattern) { MOST_DEPTH } else { 0 })?;
    let names = source.matching(pattern, names).map_err(option)?;
    if names.is_empty() {
        return Err(Error::usage(format!("no file matches option {FILES}")).found(format!("{pattern:?}")));
    }
    Ok(names)
}

/// Adds the visible files of a folder, and those below it.
fn walk(source: &FileSource, folder: &str, names: &mut Vec<String>, depth: usize) -> Result<()> {
    let is_visible = |name: &String| !name.rsplit('/').next().unwrap_or(name).starts_with(['.', '_']);
    let mut open = vec![(folder.to_owned(), depth)];
    let mut folders = 0;
    while let Some((folder, depth)) = open.pop() {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        names.extend(source.list(&prefix)?.into_iter().filter(is_visible));
        folders += 1;
        // Links among folders may lead in circles.
        if names.len() + folders > MOST_FILES {
            return Err(Error::limit("too many files")
                .file(folder)
                .expected(format!("at most {MOST_FILES}")));
        }
        if let Some(depth) = depth.checked_sub(1) {
            open.extend(source.folders(&folder)?.into_iter().filter(is_visible).map(|below| (below, depth)));
        }
    }
    names.sort();
    Ok(())
}
