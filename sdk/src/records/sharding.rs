//! How rows are divided over files: by the options that formats of rows share, and the names that they share too.

use super::{Group, Roll};
use crate::Side::Writer;
use crate::file_name::split_suffix;
use crate::{Error, OptionSpec, Options, Result, ShardName, TypedOption};

/// The most that five digits can number.
const MOST: u32 = 99_999;

const SHARDS: TypedOption<Option<u32>> = TypedOption::integer(
    Writer,
    "shards",
    1..=99_999,
    "deal the rows over so many files, NAME-00000-of-0000N and so on",
);
const SHARD_ROWS: TypedOption<Option<u64>> =
    TypedOption::integer(Writer, "shard_rows", 1..=u64::MAX, "begin another such file after so many rows");
const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    1,
    "begin another such file before one has more bytes than this (500MB is usual), whatever lies behind its rows",
);

/// How rows are divided over files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharding {
    /// They are not.
    #[default]
    One,
    /// Over so many.
    Count(u32),
    /// Over as many as it takes.
    Roll(Roll),
}

impl Sharding {
    /// The options `shards`, `shard_rows` and `max_shard_size`, for a format to declare.
    #[must_use]
    pub fn options() -> [OptionSpec; 3] {
        [SHARDS.spec(), SHARD_ROWS.spec(), MAX_SHARD_SIZE.spec()]
    }

    /// What those options say.
    ///
    /// # Errors
    /// Usage, if more than one of them is given.
    pub fn of(options: &Options) -> Result<Self> {
        let count = SHARDS.get(options)?.map(Self::Count);
        let rows = SHARD_ROWS.get(options)?.map(|rows| Self::Roll(Roll::Rows(rows)));
        let bytes = MAX_SHARD_SIZE.get(options)?.map(|bytes| Self::Roll(Roll::Bytes(bytes)));
        let mut given = [count, rows, bytes].into_iter().flatten();
        match (given.next(), given.next()) {
            (_, Some(_)) => {
                Err(Error::usage(format!("give one of {SHARDS}, {SHARD_ROWS} and {MAX_SHARD_SIZE}")))
            }
            (given, None) => Ok(given.unwrap_or_default()),
        }
    }
}

/// The files that a [`Sharding`] comes to, for a [`RecordPlan`](super::RecordPlan) to answer with.
#[derive(Debug, Clone)]
pub struct ShardFiles {
    files: Vec<String>,
    roll: Option<Roll>,
    stem: String,
    ending: String,
    supersedes: Vec<String>,
}

impl ShardFiles {
    /// Names files after `name`, whose suffix is one of these in any case; the first is the usual one.
    #[must_use]
    pub fn named(sharding: Sharding, name: &str, suffixes: &[&str]) -> Self {
        let usual = suffixes.first().copied().unwrap_or_default();
        let (stem, suffix) = split_suffix(name, suffixes).unwrap_or((name, usual));
        Self::new(sharding, name, stem, suffix)
    }

    /// `name` where there is one file, else `STEM-00000-of-0000N` and the ending.
    #[must_use]
    pub fn new(sharding: Sharding, name: &str, stem: &str, ending: &str) -> Self {
        let (files, roll) = match sharding {
            Sharding::One => (vec![name.to_owned()], None),
            Sharding::Count(count) => (ShardName::set(stem, count, ending), None),
            Sharding::Roll(roll) => (Vec::new(), Some(roll)),
        };
        let is_set = sharding != Sharding::One;
        let supersedes = ShardName::glob(stem, ending).filter(|_| is_set).into_iter().collect();
        Self { files, roll, stem: stem.to_owned(), ending: ending.to_owned(), supersedes }
    }

    /// For [`RecordPlan::files`](super::RecordPlan::files).
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// For [`RecordPlan::roll`](super::RecordPlan::roll).
    #[must_use]
    pub fn roll(&self) -> Option<Roll> {
        self.roll
    }

    /// For [`RecordPlan::name`](super::RecordPlan::name).
    ///
    /// # Errors
    /// Unsupported: more files than five digits can number.
    pub fn name(&self, file: usize, count: usize) -> Result<String> {
        if u32::try_from(count).is_ok_and(|count| count <= MOST) {
            return Ok(ShardName::format(&self.stem, file as u64, count as u64, &self.ending));
        }
        Err(Error::unsupported("too many files: let each hold more")
            .expected(format!("at most {MOST}"))
            .found(count))
    }

    /// For [`RecordPlan::group`](super::RecordPlan::group): pieces that are short enough for files of a size to come out
    /// nearly as long as that.
    #[must_use]
    pub fn group(&self, group: Group) -> Group {
        match self.roll {
            Some(Roll::Bytes(bytes)) => Group { bytes: group.bytes.min(bytes / 8).max(1), ..group },
            _ => group,
        }
    }

    /// For [`RecordPlan::supersedes`](super::RecordPlan::supersedes): shards of any number.
    #[must_use]
    pub fn supersedes(&self) -> &[String] {
        &self.supersedes
    }
}
