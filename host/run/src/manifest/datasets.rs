//! The files of a data set, and the units that they make: so many files of one folder, in the order of
//! their names. Nothing is opened.

use super::models::{Found, Names};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tensorferry_sdk::{Error, Result};

/// How deep folders are entered.
const DEEPEST: usize = 64;

/// A unit of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitFiles {
    /// Its files, in order; at least one.
    pub(super) files: Vec<Found>,
    /// Its number among those of its folder, from 0.
    pub(super) number: usize,
}

/// Every file below `root` but hidden ones, sorted by path. Those whose names begin with `_` are what other
/// programs leave beside data: `_SUCCESS`, `_metadata`.
///
/// # Errors
/// I/o.
pub(super) fn files(root: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    visit(root, "", 0, &mut found)?;
    Ok(found)
}

fn visit(root: &Path, folder: &str, depth: usize, found: &mut BTreeSet<String>) -> Result<()> {
    let path = root.join(folder);
    let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with(['.', '_']) {
            continue;
        }
        let place = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && depth < DEEPEST {
            visit(root, &place, depth + 1, found)?;
        } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
            found.insert(place);
        }
    }
    Ok(())
}

/// Those that formats of records are called like, an index beside its file left out.
pub(super) fn records(files: &BTreeSet<String>, names: &Names) -> Vec<Found> {
    let is_index = |path: &str| {
        let of = path.rsplit_once('.').map(|(of, _)| of);
        !names.has_suffix(base(path)) && of.is_some_and(|of| files.contains(of))
    };
    let is_meant = |path: &&String| names.is_weight(base(path)) && !is_index(path);
    files.iter().filter(is_meant).map(|path| found(path, names)).collect()
}

/// A file that the user has named.
pub(super) fn found(path: &str, names: &Names) -> Found {
    let bare = names.bare_file(base(path));
    let bare =
        path.rsplit_once('/').map_or_else(|| bare.to_owned(), |(folder, _)| format!("{folder}/{bare}"));
    Found::file(path, &bare)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A set of shards (`NAME-00001-of-00040...`) of which some are missing: its name, how many there should
/// be, and how many there are.
pub(super) fn torn_set(files: &[Found]) -> Option<(String, u64, u64)> {
    let mut sets: BTreeMap<(&str, &str, u64), BTreeSet<u64>> = BTreeMap::new();
    for file in files {
        let Some((before, after)) = file.path.split_once("-of-") else { continue };
        let Some((stem, number)) = before.rsplit_once('-') else { continue };
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits < 5 || number.len() < 5 {
            continue;
        }
        if let (Ok(number), Ok(count)) = (number.parse(), after[..digits].parse()) {
            sets.entry((stem, &after[digits..], count)).or_default().insert(number);
        }
    }
    let torn = sets.into_iter().find(|((_, _, count), there)| there.len() as u64 != *count);
    torn.map(|((stem, _, count), there)| (stem.to_owned(), count, there.len() as u64))
}

/// Units of at most `group` files, each of one folder.
pub(super) fn units(files: Vec<Found>, group: usize) -> Vec<UnitFiles> {
    let mut folders: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for file in files {
        folders.entry(file.parent().to_owned()).or_default().push(file);
    }
    let of_folder = |files: Vec<Found>| {
        let chunks: Vec<Vec<Found>> = files.chunks(group.max(1)).map(<[Found]>::to_vec).collect();
        chunks.into_iter().enumerate().map(|(number, files)| UnitFiles { files, number })
    };
    folders.into_values().flat_map(of_folder).collect()
}

impl UnitFiles {
    /// What `--only` and the report call it: a file's path, or the number of a group in its folder.
    pub(super) fn name(&self, group: usize) -> String {
        let first = &self.files[0];
        match (group, first.parent()) {
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

    fn of(paths: &[&str]) -> Vec<Found> {
        paths.iter().map(|path| Found::file(path, path)).collect()
    }

    #[test]
    fn units_stay_within_a_folder() {
        let units = units(of(&["a/1", "a/2", "a/3", "b/1", "x"]), 2);
        let names: Vec<Vec<&str>> =
            units.iter().map(|unit| unit.files.iter().map(|file| file.path.as_str()).collect()).collect();
        assert_eq!(names, [vec!["x"], vec!["a/1", "a/2"], vec!["a/3"], vec!["b/1"]]);
        let names: Vec<String> = units.iter().map(|unit| unit.name(2)).collect();
        assert_eq!(names, ["group-00000", "a/group-00000", "a/group-00001", "b/group-00000"]);
        assert_eq!(units[1].name(1), "a/1");
    }

    #[test]
    fn a_set_of_shards_is_whole_or_named() {
        assert_eq!(torn_set(&of(&["d-00000-of-00002.r", "d-00001-of-00002.r", "e.r"])), None);
        let torn = torn_set(&of(&["d-00000-of-00003.r", "d-00001-of-00003.r"])).unwrap();
        assert_eq!(torn, ("d".to_owned(), 3, 2));
    }

    #[test]
    fn files_are_found_below_and_hidden_ones_are_not() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("sub/.git")).unwrap();
        for name in ["b", "_SUCCESS", ".x", "sub/a", "sub/.git/a"] {
            std::fs::write(home.path().join(name), "").unwrap();
        }
        assert_eq!(files(home.path()).unwrap().into_iter().collect::<Vec<_>>(), ["b", "sub/a"]);
    }
}
