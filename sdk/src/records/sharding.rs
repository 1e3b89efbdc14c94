//! Distributes rows over files. Record formats share the options and the file names that this
//! module defines.

use super::{Group, Roll};
use crate::Side::Writer;
use crate::file_name::split_suffix;
use crate::{Error, OptionSpec, Options, Result, ShardName, TypedOption};

/// Maximum number of files, because shard names have five digits.
const MAX_FILES: u32 = 99_999;

const SHARDS: TypedOption<Option<u32>> = TypedOption::integer(
    Writer,
    "shards",
    1..=99_999,
    "number of output files, named NAME-00000-of-0000N and so on",
);
const SHARD_ROWS: TypedOption<Option<u64>> =
    TypedOption::integer(Writer, "shard_rows", 1..=u64::MAX, "maximum rows per output file");
const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    1,
    "maximum bytes per output file, not counting its tail (e.g. 500MB)",
);

/// How rows are distributed over files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharding {
    /// All rows are in a single file.
    #[default]
    One,
    /// The rows are distributed over this number of files.
    Count(u32),
    /// Files are added as needed.
    Roll(Roll),
}

impl Sharding {
    /// Returns the declarations of the options `shards`, `shard_rows` and `max_shard_size`.
    #[must_use]
    pub fn options() -> [OptionSpec; 3] {
        [SHARDS.spec(), SHARD_ROWS.spec(), MAX_SHARD_SIZE.spec()]
    }

    /// Returns the distribution that these options select.
    ///
    /// # Errors
    /// Returns a usage error if more than one of these options is set.
    pub fn of(options: &Options) -> Result<Self> {
        let count = SHARDS.get(options)?.map(Self::Count);
        let rows = SHARD_ROWS.get(options)?.map(|rows| Self::Roll(Roll::Rows(rows)));
        let bytes = MAX_SHARD_SIZE.get(options)?.map(|bytes| Self::Roll(Roll::Bytes(bytes)));
        let mut given = [count, rows, bytes].into_iter().flatten();
        match (given.next(), given.next()) {
            (_, Some(_)) => Err(Error::usage(format!(
                "{SHARDS}, {SHARD_ROWS} and {MAX_SHARD_SIZE} are mutually exclusive"
            ))),
            (given, None) => Ok(given.unwrap_or_default()),
        }
    }
}

/// The files of a [`Sharding`]. See [`RecordPlan::shard_files`](super::RecordPlan::shard_files).
#[derive(Debug, Clone)]
pub struct ShardFiles {
    files: Vec<String>,
    roll: Option<Roll>,
    stem: String,
    ending: String,
    supersedes: Vec<String>,
}

impl ShardFiles {
    /// Names the files after `name`, which may end with one of these suffixes. The case of the
    /// suffix is ignored. The first suffix is the default.
    #[must_use]
    pub fn named(sharding: Sharding, name: &str, suffixes: &[&str]) -> Self {
        let usual = suffixes.first().copied().unwrap_or_default();
        let (stem, suffix) = split_suffix(name, suffixes).unwrap_or((name, usual));
        Self::new(sharding, name, stem, suffix)
    }

    /// Uses `name` for a single file. For several files, uses `STEM-00000-of-0000N`, followed by
    /// `ending`.
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

    /// Implements [`RecordPlan::files`](super::RecordPlan::files).
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Implements [`RecordPlan::roll`](super::RecordPlan::roll).
    #[must_use]
    pub fn roll(&self) -> Option<Roll> {
        self.roll
    }

    /// Implements [`RecordPlan::name`](super::RecordPlan::name).
    ///
    /// # Errors
    /// Returns an unsupported error if there are more than 99,999 files.
    pub fn name(&self, file: usize, count: usize) -> Result<String> {
        if u32::try_from(count).is_ok_and(|count| count <= MAX_FILES) {
            return Ok(ShardName::format(&self.stem, file as u64, count as u64, &self.ending));
        }
        Err(Error::unsupported("too many files")
            .hint("raise shard_rows or max_shard_size")
            .expected(format!("at most {MAX_FILES}"))
            .found(count))
    }

    /// Implements [`RecordPlan::group`](super::RecordPlan::group). If files have a maximum size,
    /// pieces are kept short so that files can come close to that size.
    #[must_use]
    pub fn group(&self, group: Group) -> Group {
        match self.roll {
            Some(Roll::Bytes(bytes)) => Group { bytes: group.bytes.min(bytes / 8).max(1), ..group },
            _ => group,
        }
    }

    /// Implements [`RecordPlan::supersedes`](super::RecordPlan::supersedes). The pattern matches
    /// any number of shards.
    #[must_use]
    pub fn supersedes(&self) -> &[String] {
        &self.supersedes
    }
}
