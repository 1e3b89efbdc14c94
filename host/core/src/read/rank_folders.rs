//! Folders whose names show that they contain one rank's part of a model: `mp_rank_00`,
//! `tp_rank_00_pp_rank_000`, `rank_0`. The files in such a folder have the same names as the files
//! of whole models.

use crate::context::session::Session;
use crate::read::folder::{EntryKind, InputFolder, absolute};
use crate::read::source::FileSource;
use tensorferry_sdk::{Entry, Error, Result, Source};

/// The reader option and value with which a reader reads only a single part.
const ALONE: (&str, &str) = ("shard", "alone");

/// Returns whether the reader's options contain the option to read only a single part.
#[must_use]
pub fn is_alone(options: &[(String, String)]) -> bool {
    options.iter().any(|(key, value)| (key.as_str(), value.as_str()) == ALONE)
}

/// Returns the name of a folder next to the source's folder that contains a different rank of the
/// same set.
pub fn sibling(source: &FileSource, session: &Session) -> Result<Option<String>> {
    let is_one = matches!(source.entry(), Entry::Folder | Entry::File(_)) && !source.is_listed()
        || source.pattern().is_some();
    let Ok(path) = absolute(source.folder()) else { return Ok(None) };
    let name =
        path.file_name().and_then(|name| name.to_str()).filter(|name| is_one && set_of(name).is_some());
    let Some((name, parent)) = name.zip(path.parent()) else { return Ok(None) };
    // A folder that cannot be listed has no siblings.
    let Ok(entries) = InputFolder::at(parent, session)?.entries("", "", session.limits.entries) else {
        return Ok(None);
    };
    let folders = entries.iter().filter(|entry| entry.kind == EntryKind::Folder);
    Ok(sibling_among(name, folders.map(|entry| entry.name.as_str())))
}

/// Searches these folders for a different rank of the same set. Ranks are numbered from 0. If the
/// numbers do not start at 0, they may have a different meaning.
pub fn sibling_among<'n>(name: &str, folders: impl Iterator<Item = &'n str>) -> Option<String> {
    let (set, is_first) = set_of(name)?;
    let others = folders.filter(|other| *other != name);
    let mut of_set = others.filter_map(|other| Some((other, set_of(other)?))).filter(|(_, of)| of.0 == set);
    of_set.find(|(_, (_, other_is_first))| is_first || *other_is_first).map(|(other, _)| other.to_owned())
}

/// Returns the error for a folder of one rank.
pub fn refusal(folder: &str, sibling: &str) -> Error {
    Error::usage(format!("the folder holds one rank's part of a model: {sibling:?} is next to it"))
        .file(folder)
        .hint("pass the whole model, or -i shard=alone to read only this part")
}

/// Replaces the numbers in a folder's name with `#`. Returns the result, and whether all of the
/// numbers are 0. Returns `None` if the folder is not a rank's folder.
fn set_of(name: &str) -> Option<(String, bool)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let is_rank = |(at, word): (usize, &str)| {
        let rest = &name[at + word.len()..];
        let before = name[..at].chars().next_back();
        !before.is_some_and(char::is_alphabetic) && rest.trim_start_matches(['_', '-']).starts_with(is_digit)
    };
    name.match_indices("rank").any(is_rank).then(|| {
        let (mut set, mut is_first, mut rest) = (String::new(), true, name);
        while let Some(start) = rest.find(is_digit) {
            let number = &rest[start..];
            let end = number.find(|c| !is_digit(c)).unwrap_or(number.len());
            is_first &= number[..end].bytes().all(|digit| digit == b'0');
            set.push_str(&rest[..start]);
            set.push('#');
            rest = &number[end..];
        }
        (set + rest, is_first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_known_by_the_folders_next_to_them() {
        let found = |names: &[&str]| sibling_among(names[0], names.iter().copied());
        for names in [
            ["mp_rank_00", "mp_rank_01"],
            ["mp_rank_01", "mp_rank_00"],
            ["tp_rank_00_pp_rank_000", "tp_rank_00_pp_rank_001"],
            ["rank_0", "rank_1"],
            ["rank0", "rank7"],
        ] {
            assert_eq!(found(&names).as_deref(), Some(names[1]), "{names:?}");
        }
        for names in [
            &["mp_rank_00"][..],
            &["mp_rank_00", "rank_1"],
            &["lora_rank_8", "lora_rank_16"],
            &["checkpoint-0", "checkpoint-1"],
            &["frank_0", "frank_1"],
            &["rank", "ranks"],
        ] {
            assert_eq!(found(names), None, "{names:?}");
        }
    }
}
