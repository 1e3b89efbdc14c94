//! The names of a bundle's files.

use crate::bundle::{DATA_INFIX, INDEX_SUFFIX};
use crate::state_file::STATE_FILE;
use tensorferry_sdk::{Error, Result, ShardName, Target};

/// The default name of a checkpoint, as in TensorFlow's examples.
const DEFAULT_PREFIX: &str = "model.ckpt";

/// The common prefix of a bundle's files, such as `model.ckpt-42` for `model.ckpt-42.index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prefix(pub(crate) String);

impl Prefix {
    /// Returns the prefix for a target. If the target is the name of an index file, the prefix is
    /// the part before the extension.
    pub(crate) fn of(target: &Target) -> Result<Self> {
        let Target::File(path) = target else { return Ok(Self(DEFAULT_PREFIX.to_owned())) };
        let prefix = path.strip_suffix(INDEX_SUFFIX).unwrap_or(path);
        if prefix.is_empty() || prefix.ends_with('/') {
            return Err(Error::usage(format!("a checkpoint needs a file name, but the target is {path:?}"))
                .hint("add a name such as model.ckpt"));
        }
        Ok(Self(prefix.to_owned()))
    }

    /// Returns the path of the index.
    pub(crate) fn index(&self) -> String {
        format!("{}{INDEX_SUFFIX}", self.0)
    }

    /// Returns the path of data file `shard`, counted from 0, of `count` data files.
    pub(crate) fn data_file(&self, shard: usize, count: usize) -> String {
        ShardName::format(&format!("{}{DATA_INFIX}", self.0), shard as u64, count as u64, "")
    }

    /// Returns a glob that matches the data files of this prefix, regardless of the file count in
    /// their names. Returns `None` if the prefix contains glob characters.
    pub(crate) fn superseded(&self) -> Option<String> {
        ShardName::glob(&format!("{}{DATA_INFIX}", self.0), "")
    }

    /// Returns the path of the state file, and the name that the state file uses for this
    /// checkpoint.
    pub(crate) fn state_file(&self) -> (String, &str) {
        match self.0.rsplit_once('/') {
            Some((folder, name)) => (format!("{folder}/{STATE_FILE}"), name),
            None => (STATE_FILE.to_owned(), &self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn prefix(path: &str) -> Result<Prefix> {
        Prefix::of(&Target::File(path.to_owned()))
    }

    #[test]
    fn a_prefix_is_what_stands_before_the_index() {
        assert_eq!(prefix("m.ckpt-42").unwrap().index(), "m.ckpt-42.index");
        assert_eq!(prefix("m.ckpt-42.index").unwrap().0, "m.ckpt-42");
        assert_eq!(Prefix::of(&Target::Folder).unwrap().index(), "model.ckpt.index");
        assert!(prefix(".index").is_err());
        assert!(prefix("a/.index").is_err());
    }

    #[test]
    fn the_state_file_lies_beside_the_index() {
        assert_eq!(prefix("a/b/m").unwrap().state_file(), ("a/b/checkpoint".to_owned(), "m"));
        assert_eq!(prefix("m").unwrap().state_file(), ("checkpoint".to_owned(), "m"));
    }
}
