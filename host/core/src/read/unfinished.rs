//! The names of folders into which programs write a checkpoint. Programs rename such a folder when
//! the checkpoint is complete, so a folder that still has such a name is unfinished.

use crate::read::folder::absolute;
use std::path::Path;
use tensorferry_sdk::{Error, Result};

/// Prefixes of the names of such folders, each with a string that follows later in the name.
const NAMES: [(&str, &str); 4] = [
    ("", "checkpoint-tmp-"),
    ("", ".orbax-checkpoint-tmp"),
    ("checkpoint", ".tmp-"),
    ("tmp-checkpoint-", ""),
];

/// Returns whether a folder is an unfinished checkpoint, judging by its name.
#[must_use]
pub fn is_unfinished(name: &str) -> bool {
    NAMES.iter().any(|(start, rest)| name.strip_prefix(start).is_some_and(|name| name.contains(rest)))
}

/// Checks that no folder in a path is an unfinished checkpoint.
pub fn check(path: &Path) -> Result<()> {
    let whole = absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut names = whole.iter().filter_map(|name| name.to_str());
    match names.find(|name| is_unfinished(name)) {
        None => Ok(()),
        Some(name) => Err(Error::malformed(format!(
            "the checkpoint was never finished: {name:?} is the name of a folder that is still being written"
        ))
        .file(path.display().to_string())
        .hint("pass a finished step, or rename the folder to read its contents")),
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
