//! What the files of a bundle are called.

use crate::bundle::{DATA_INFIX, INDEX_SUFFIX};
use crate::state_file::STATE_FILE;
use tensorferry_sdk::{Error, Result, ShardName, Target};

/// What a checkpoint is called that nobody named; TensorFlow's examples call it so.
const DEFAULT_PREFIX: &str = "model.ckpt";

/// The prefix that all files of a bundle share: `model.ckpt-42` of `model.ckpt-42.index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prefix(pub(crate) String);

impl Prefix {
    /// The prefix for a target; a user who named the index meant what stands before it.
    pub(crate) fn of(target: &Target) -> Result<Self> {
        let Target::File(path) = target else { return Ok(Self(DEFAULT_PREFIX.to_owned())) };
        let prefix = path.strip_suffix(INDEX_SUFFIX).unwrap_or(path);
        if prefix.is_empty() || prefix.ends_with('/') {
            return Err(Error::usage("a checkpoint needs a prefix")
                .expected("such as model.ckpt")
                .found(format!("{path:?}")));
        }
        Ok(Self(prefix.to_owned()))
    }

    /// The index's path.
    pub(crate) fn index(&self) -> String {
        format!("{}{INDEX_SUFFIX}", self.0)
    }

    /// The path of one data file of `count`; `shard` is from 0.
    pub(crate) fn data_file(&self, shard: usize, count: usize) -> String {
        ShardName::format(&format!("{}{DATA_INFIX}", self.0), shard as u64, count as u64, "")
    }

    /// The names that data files of another number would have: none where a glob would take the
    /// prefix for more than a name.
    pub(crate) fn superseded(&self) -> Option<String> {
        ShardName::glob(&format!("{}{DATA_INFIX}", self.0), "")
    }

    /// The path of the file that names the latest checkpoint, and what it calls this one.
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
