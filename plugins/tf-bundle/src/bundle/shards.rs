//! Opens the data files of a bundle by the shard numbers in its entries.
//!
//! The name of each data file contains the total number of data files. When TensorFlow merges
//! bundles, it renames the data files according to the number of files that exist. However, the
//! merged header contains the sum of the file counts in the old headers, which include files that
//! were never written. If no file name contains the header's count, ferry uses the count in the
//! file names, provided that all of them agree.

use std::collections::{BTreeMap, BTreeSet};
use tensorferry_sdk::{Error, FileId, Result, ShardName, Source};

/// The part of a data file name between the prefix and the two numbers.
pub(crate) const DATA_INFIX: &str = ".data";

/// Parses the name of a data file, `<prefix>.data-00000-of-00001`. Returns the prefix and the file
/// count.
pub(crate) fn data_file(name: &str) -> Option<(&str, i32)> {
    let shard = ShardName::parse(name).filter(|shard| shard.ending.is_empty())?;
    Some((shard.stem.strip_suffix(DATA_INFIX)?, shard.count.try_into().ok()?))
}

fn data_file_name(prefix: &str, shard: i32, count: i32) -> String {
    // A negative number becomes `u64::MAX`, which results in a name that no file has.
    let [shard, count] = [shard, count].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    ShardName::format(&format!("{prefix}{DATA_INFIX}"), shard, count, "")
}

/// Returns whether a data file with the prefix exists.
pub(crate) fn has_data_files(source: &dyn Source, prefix: &str) -> Result<bool> {
    Ok(!counts_in_names(source, prefix)?.is_empty())
}

/// Returns the file counts that appear in the names of the prefix's data files.
fn counts_in_names(source: &dyn Source, prefix: &str) -> Result<BTreeSet<i32>> {
    let names = source.list(&format!("{prefix}{DATA_INFIX}-"))?;
    let parsed = names.iter().filter_map(|name| data_file(name));
    Ok(parsed.filter(|(of, _)| *of == prefix).map(|(_, count)| count).collect())
}

/// The opened data files, by shard number.
#[derive(Debug)]
pub(super) struct Shards(BTreeMap<i32, FileId>);

impl Shards {
    /// Opens the data files whose numbers are the keys of `used`. Each value is the name of a
    /// tensor that is stored in the file.
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
                return Err(Error::malformed("the data file number of an entry is out of range")
                    .tensor(tensor)
                    .expected(format!("a number below {num_shards}"))
                    .found(shard));
            }
            let name = data_file_name(prefix, shard, count);
            if !source.contains(&name)? {
                return Err(Error::malformed("a data file of the bundle is missing")
                    .file(name)
                    .tensor(tensor));
            }
            files.insert(shard, source.open(&name)?);
        }
        Ok(Self(files))
    }

    /// Returns the data file with this number, or `None` if no entry refers to it.
    pub(super) fn file(&self, shard: i32) -> Option<FileId> {
        self.0.get(&shard).copied()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.0.values().copied()
    }
}

/// Returns the file count to use in data file names. The result is the header's count if a data
/// file of `shard` with that count in its name exists.
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
