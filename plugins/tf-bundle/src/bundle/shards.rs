//! The data files of a bundle, by the number that entries give.
//!
//! Merging bundles renames data files to the number of files that there are, and sums the numbers in
//! the headers, which count files that nothing was written to. So where a header's number fits no
//! file, the files' own number holds, if they agree on one.

use std::collections::{BTreeMap, BTreeSet};
use tensorferry_sdk::{Error, FileId, Result, ShardName, Source};

/// What stands between a prefix and the numbers of a data file.
pub(crate) const DATA_INFIX: &str = ".data";

/// The prefix of a data file, and the number of files that its name gives:
/// `<prefix>.data-00000-of-00001`.
pub(crate) fn data_file(name: &str) -> Option<(&str, i32)> {
    let shard = ShardName::parse(name).filter(|shard| shard.ending.is_empty())?;
    Some((shard.stem.strip_suffix(DATA_INFIX)?, shard.count.try_into().ok()?))
}

/// The name of a data file of so many.
fn data_file_name(prefix: &str, shard: i32, count: i32) -> String {
    // No name has a negative number: there is no such file.
    let [shard, count] = [shard, count].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    ShardName::format(&format!("{prefix}{DATA_INFIX}"), shard, count, "")
}

/// Whether there is a file that is called as a data file of the prefix is.
pub(crate) fn has_data_files(source: &dyn Source, prefix: &str) -> Result<bool> {
    Ok(!counts_in_names(source, prefix)?.is_empty())
}

/// The number of files that each data file of the prefix has in its name.
fn counts_in_names(source: &dyn Source, prefix: &str) -> Result<BTreeSet<i32>> {
    let names = source.list(&format!("{prefix}{DATA_INFIX}-"))?;
    let parsed = names.iter().filter_map(|name| data_file(name));
    Ok(parsed.filter(|(of, _)| *of == prefix).map(|(_, count)| count).collect())
}

/// The data files that entries need, opened.
#[derive(Debug)]
pub(super) struct Shards(BTreeMap<i32, FileId>);

impl Shards {
    /// Opens the data files whose numbers are in `used`, each with the name of a tensor that needs it.
    pub(super) fn open(
        source: &dyn Source,
        prefix: &str,
        num_shards: i32,
        used: &BTreeMap<i32, String>,
    ) -> Result<Self> {
        let count = match used.first_key_value() {
            Some((&shard, _)) => file_count(source, prefix, shard, num_shards)?,
            None => num_shards,
        };
        let mut files = BTreeMap::new();
        for (&shard, tensor) in used {
            if !(0..num_shards).contains(&shard) {
                return Err(Error::malformed("an entry is in a data file that the header does not count")
                    .tensor(tensor)
                    .expected(format!("a number below {num_shards}"))
                    .found(shard));
            }
            let name = data_file_name(prefix, shard, count);
            if !source.contains(&name)? {
                return Err(Error::malformed("a data file of the bundle is not there")
                    .file(name)
                    .tensor(tensor));
            }
            files.insert(shard, source.open(&name)?);
        }
        Ok(Self(files))
    }

    /// The file of a number, if an entry needs it.
    pub(super) fn file(&self, shard: i32) -> Option<FileId> {
        self.0.get(&shard).copied()
    }

    /// All of them.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.0.values().copied()
    }
}

/// The number of files that the files' names give: the header's, if the first file that is needed
/// has it.
fn file_count(source: &dyn Source, prefix: &str, shard: i32, num_shards: i32) -> Result<i32> {
    if source.contains(&data_file_name(prefix, shard, num_shards))? {
        return Ok(num_shards);
    }
    let mut counts = counts_in_names(source, prefix)?.into_iter();
    match (counts.next(), counts.next()) {
        (Some(only), None) => Ok(only),
        _ => Ok(num_shards),
    }
}
