//! Folders that a program writes a checkpoint to before it renames them. One that has kept such a name was never finished.

use crate::read::folder::absolute;
use std::path::Path;
use tensorferry_sdk::{Error, Result};

/// What the name of such a folder begins with, and what follows later in it.
const NAMES: [(&str, &str); 4] = [
    ("", "checkpoint-tmp-"),
    ("", ".orbax-checkpoint-tmp"),
    ("checkpoint", ".tmp-"),
    ("tmp-checkpoint-", ""),
];

/// Whether the name of a folder is one of a checkpoint that was never finished.
#[must_use]
pub fn is_unfinished(name: &str) -> bool {
    NAMES.iter().any(|(start, rest)| name.strip_prefix(start).is_some_and(|name| name.contains(rest)))
}

/// Checks that no folder of a path is of a checkpoint that was never finished.
pub fn check(path: &Path) -> Result<()> {
    let whole = absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut names = whole.iter().filter_map(|name| name.to_str());
    match names.find(|name| is_unfinished(name)) {
        None => Ok(()),
        Some(name) => Err(Error::malformed(format!(
            "the checkpoint was never finished: {name:?} is a name for a folder that is being written"
        ))
        .file(path.display().to_string())
        .expected("a finished step, or the folder under a different name to read what it holds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_folder_is_known_by_its_name() {
        for name in [
            "5.orbax-checkpoint-tmp-1700000000",
            "5.orbax-checkpoint-tmp",
            "checkpoint_100.tmp-17",
            "tmp-checkpoint-500",
        ] {
            assert!(is_unfinished(name), "{name}");
            assert!(check(&Path::new("run").join(name).join("default")).is_err(), "{name}");
        }
        for name in ["5", "checkpoint-500", "checkpoint_100", "tmp", "a.tmp-1", "tmp.X1b2"] {
            assert!(!is_unfinished(name), "{name}");
            assert_eq!(check(&Path::new("/tmp/run").join(name)), Ok(()));
        }
    }
}
