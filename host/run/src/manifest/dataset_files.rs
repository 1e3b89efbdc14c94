//! Finds the files of a dataset and groups them. A file group consists of consecutive files in one
//! folder, in the order of their names.
//!
//! Each file group is read as one input and becomes one output. This module does not open any file.

use super::folder_names::FolderNames;
use super::input_path::{InputPath, join};
use super::name_patterns::NamePatterns;
use super::search::{MAX_DEPTH, Search};
use std::collections::{BTreeMap, BTreeSet};
use tensorferry_sdk::{Result, ShardName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupFiles {
    /// The files of the group, in order. A group contains at least one file.
    pub(super) files: Vec<InputPath>,
    /// The group's number in its folder, starting at 0.
    pub(super) number: usize,
}

/// Returns all files in the search's root and its subfolders, except hidden files, sorted by path.
/// Names that start with `_` (`_SUCCESS`, `_metadata`) belong to other programs and are skipped. If
/// an entry is not a file, but `is_meant` returns true for its name, the entry is reported.
pub(super) fn files(search: &mut Search<'_>, is_meant: &dyn Fn(&str) -> bool) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    visit(search, "", 0, is_meant, &mut found)?;
    Ok(found)
}

fn visit(
    search: &mut Search<'_>,
    folder: &str,
    depth: usize,
    is_meant: &dyn Fn(&str) -> bool,
    found: &mut BTreeSet<String>,
) -> Result<()> {
    let is_beside = |name: &str| name.starts_with(['.', '_']);
    let FolderNames { mut files, mut folders } =
        search.read(folder, &|name| !is_beside(name) && is_meant(name))?;
    for names in [&mut files, &mut folders] {
        names.retain(|name| !is_beside(name));
    }
    found.extend(files.iter().map(|name| join(folder, name)));
    if depth < MAX_DEPTH {
        for name in &folders {
            visit(search, &join(folder, name), depth + 1, is_meant, found)?;
        }
    }
    Ok(())
}

/// Selects the files whose names match a record format. An index next to the file that it describes
/// is not selected.
pub(super) fn records(files: &BTreeSet<String>, names: &NamePatterns) -> Vec<InputPath> {
    let is_index = |path: &str| {
        let of = path.rsplit_once('.').map(|(of, _)| of);
        !names.has_suffix(base(path)) && of.is_some_and(|of| files.contains(of))
    };
    let is_meant = |path: &&String| names.is_weight(base(path)) && !is_index(path);
    files.iter().filter(is_meant).map(|path| input_path(path, names)).collect()
}

pub(super) fn input_path(path: &str, names: &NamePatterns) -> InputPath {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    InputPath::file(path.to_owned(), join(folder, names.without_suffix(base(path))))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the first set of shards (`NAME-00001-of-00040...`) in which some shards are missing. The
/// result is the name of the set, its number of shards, and the number of shards that exist.
pub(super) fn incomplete_set(files: &[InputPath]) -> Option<(String, u64, u64)> {
    let mut sets: BTreeMap<(&str, &str, u64), BTreeSet<u64>> = BTreeMap::new();
    for file in files {
        let Some(shard) = ShardName::parse(&file.path) else { continue };
        sets.entry((shard.stem, shard.ending, shard.count)).or_default().insert(shard.number);
    }
    let set = sets.into_iter().find(|((_, _, count), there)| there.len() as u64 != *count);
    set.map(|((stem, _, count), there)| (stem.to_owned(), count, there.len() as u64))
}

/// Groups files of the same folder, at most `size` per group.
pub(super) fn groups(files: Vec<InputPath>, size: usize) -> Vec<GroupFiles> {
    let mut folders: BTreeMap<String, Vec<InputPath>> = BTreeMap::new();
    for file in files {
        folders.entry(file.parent().to_owned()).or_default().push(file);
    }
    let of_folder = |files: Vec<InputPath>| {
        let chunks: Vec<Vec<InputPath>> = files.chunks(size.max(1)).map(<[InputPath]>::to_vec).collect();
        chunks.into_iter().enumerate().map(|(number, files)| GroupFiles { files, number })
    };
    folders.into_values().flat_map(of_folder).collect()
}

impl GroupFiles {
    /// Returns the name of the group for `--only` and the report. If each group has one file, the
    /// name is the path of the file. Otherwise, the name contains the number of the group in its
    /// folder.
    pub(super) fn name(&self, size: usize) -> String {
        let first = &self.files[0];
        match (size, first.parent()) {
            (0 | 1, _) => first.path.clone(),
            (_, ".") => format!("group-{:05}", self.number),
            (_, parent) => format!("{parent}/group-{:05}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::manifest::search::ClosedFolders;
    use tensorferry::places::InputFolder;

    fn of(paths: &[&str]) -> Vec<InputPath> {
        paths.iter().map(|path| InputPath::file((*path).to_owned(), (*path).to_owned())).collect()
    }

    #[test]
    fn groups_stay_within_a_folder() {
        let groups = groups(of(&["a/1", "a/2", "a/3", "b/1", "x"]), 2);
        let names: Vec<Vec<&str>> =
            groups.iter().map(|group| group.files.iter().map(|file| file.path.as_str()).collect()).collect();
        assert_eq!(names, [vec!["x"], vec!["a/1", "a/2"], vec!["a/3"], vec!["b/1"]]);
        let names: Vec<String> = groups.iter().map(|group| group.name(2)).collect();
        assert_eq!(names, ["group-00000", "a/group-00000", "a/group-00001", "b/group-00000"]);
        assert_eq!(groups[1].name(1), "a/1");
    }

    #[test]
    fn a_set_of_shards_is_whole_or_named() {
        assert_eq!(incomplete_set(&of(&["d-00000-of-00002.r", "d-00001-of-00002.r", "e.r"])), None);
        let torn = incomplete_set(&of(&["d-00000-of-00003.r", "d-00001-of-00003.r"])).unwrap();
        assert_eq!(torn, ("d".to_owned(), 3, 2));
    }

    #[test]
    fn files_are_found_below_and_hidden_ones_are_not() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("sub/.git")).unwrap();
        for name in ["b", "_SUCCESS", ".x", "sub/a", "sub/.git/a"] {
            std::fs::write(home.path().join(name), "").unwrap();
        }
        let root = InputFolder::local(home.path().to_owned());
        let mut search = Search::new(&root, ClosedFolders::default());
        assert_eq!(files(&mut search, &|_| true).unwrap().into_iter().collect::<Vec<_>>(), ["b", "sub/a"]);
    }
}
