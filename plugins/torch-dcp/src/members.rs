//! Finds the files of a checkpoint by name.

use tensorferry_sdk::{Entry, Result, Source};

/// Name of the table that all ranks write together.
pub(crate) const TABLE: &str = ".metadata";
/// Suffix of the data files that each rank writes.
pub(crate) const DATA_SUFFIX: &str = ".distcp";
const SAFETENSORS_SUFFIX: &str = ".safetensors";

/// The files of a checkpoint folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// The tables to read, in the order of their ranks.
    pub(crate) tables: Vec<String>,
    /// Whether the folder contains data files, which cannot be read without a table.
    pub(crate) has_data: bool,
    /// Shards, if the checkpoint is of the variant that uses safetensors files.
    pub(crate) shards: Vec<String>,
}

/// Returns the files of the checkpoint. The result is empty unless the user passed the folder or
/// one of these files.
pub(crate) fn members(source: &dyn Source) -> Result<Members> {
    match source.entry() {
        Entry::Folder => {}
        Entry::File(name) if is_member(name) => {}
        Entry::File(_) | Entry::Prefix(_) => return Ok(Members::default()),
    }
    let names = source.list("")?;
    let mut of_ranks: Vec<(u64, String)> =
        names.iter().filter_map(|name| Some((rank_of_table(name)?, name.clone()))).collect();
    of_ranks.sort();
    let tables = if names.iter().any(|name| name == TABLE) {
        // Like torch, prefer this table to the tables of single ranks.
        vec![TABLE.to_owned()]
    } else {
        of_ranks.into_iter().map(|(_, name)| name).collect()
    };
    let has_data = names.iter().any(|name| name.ends_with(DATA_SUFFIX));
    let shards = names.into_iter().filter(|name| is_shard(name)).collect();
    Ok(Members { tables, has_data, shards })
}

fn is_member(name: &str) -> bool {
    name == TABLE || rank_of_table(name).is_some() || name.ends_with(DATA_SUFFIX) || is_shard(name)
}

/// Returns the rank from the file name of a table, such as `__3.metadata`.
fn rank_of_table(name: &str) -> Option<u64> {
    name.strip_prefix("__")?.strip_suffix(TABLE)?.parse().ok()
}

/// Returns whether a file name has the form `shard-00001-model-00001-of-00001.safetensors`.
fn is_shard(name: &str) -> bool {
    let stem = name.strip_prefix("shard-").and_then(|name| name.strip_suffix(SAFETENSORS_SUFFIX));
    let parts: Vec<&str> = stem.into_iter().flat_map(|stem| stem.split('-')).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(&*parts, [shard, "model", file, "of", files] if [shard, file, files].into_iter().all(|n| is_number(n)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::collections::BTreeMap;
    use tensorferry_sdk::MemorySource;

    fn of(entry: Entry, names: &[&str]) -> Members {
        let files: BTreeMap<_, _> = names.iter().map(|&name| (name.to_owned(), Vec::new())).collect();
        members(&MemorySource::new(entry, files)).unwrap()
    }

    #[test]
    fn tables_are_in_the_order_of_their_ranks() {
        let found = of(Entry::Folder, &["__10.metadata", "__2.metadata", "__2_0.distcp", "x.metadata"]);
        assert_eq!(found.tables, ["__2.metadata", "__10.metadata"]);
        assert!(found.has_data);
        assert_eq!(of(Entry::Folder, &[".metadata", "__0.metadata"]).tables, [".metadata"]);
    }

    #[test]
    fn a_member_stands_for_the_set() {
        let names = [
            "shard-00001-model-00001-of-00001.safetensors",
            "model.safetensors",
            "shard-x-model-1-of-1.safetensors",
        ];
        assert_eq!(of(Entry::File(names[0].to_owned()), &names).shards, [names[0]]);
        assert_eq!(of(Entry::File(names[1].to_owned()), &names), Members::default());
    }
}
