//! Recognizes shards of a dataset by their names, and checks that no shard is missing.

use std::collections::{BTreeMap, BTreeSet};
use tensorferry_sdk::{Error, Result, ShardName};

/// Maximum number of missing shards to list in an error.
const MAX_LISTED: usize = 8;
/// Minimum number of hexadecimal digits of a digest in a file name.
const DIGEST: usize = 8;

/// Parses a file name as the name of a shard. Some programs write shard numbers with four digits.
pub(super) fn shard_of(name: &str) -> Option<ShardName<'_>> {
    let ends_well = |ending: &str| ending.is_empty() || ending.starts_with('.');
    ShardName::parse_short(name, 4).filter(|shard| ends_well(without_digest(shard.ending).1))
}

/// Splits off the digest, with its hyphen. Older versions of `datasets` wrote this digest after the
/// count: `train-00000-of-00002-1c7f4e6d2a9b0c35.parquet`.
fn without_digest(ending: &str) -> (&str, &str) {
    let digits =
        ending.strip_prefix('-').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_hexdigit).count());
    if digits < DIGEST { ("", ending) } else { ending.split_at(1 + digits) }
}

/// Checks that no set of shards among these files is incomplete.
pub(super) fn check_complete(files: &[&str]) -> Result<()> {
    let mut sets: BTreeMap<(&str, u64, &str), (String, BTreeSet<u64>)> = BTreeMap::new();
    for shard in files.iter().filter_map(|name| shard_of(name)) {
        let (digest, ending) = without_digest(shard.ending);
        let pattern = || match digest {
            "" => shard.pattern(),
            digest => shard.pattern().replacen(digest, "-*", 1),
        };
        let set = sets.entry((shard.stem, shard.count, ending));
        set.or_insert_with(|| (pattern(), BTreeSet::new())).1.insert(shard.number);
    }
    sets.into_iter().try_for_each(|((_, count, _), (pattern, there))| check_set(&pattern, count, &there))
}

fn check_set(pattern: &str, count: u64, there: &BTreeSet<u64>) -> Result<()> {
    // Programs number shards from 0 or from 1.
    let first = u64::from(there.contains(&count));
    let missing = (first..first.saturating_add(count)).filter(|number| !there.contains(number));
    let missing: Vec<u64> = missing.take(MAX_LISTED).collect();
    if missing.is_empty() {
        let beyond = there.iter().find(|number| !(first..first.saturating_add(count)).contains(number));
        return beyond.map_or(Ok(()), |beyond| {
            let error = Error::malformed("the set has shards beyond its count")
                .hint("pass -i files=GLOB to select the files");
            let found = format!("{}, one of them number {beyond}", there.len());
            Err(error.file(pattern).expected(format!("{count} files")).found(found))
        });
    }
    let more = count.saturating_sub((there.len() + missing.len()) as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(Error::malformed("some shards of the set are missing")
        .hint("pass -i files=GLOB to read the existing ones")
        .file(pattern)
        .expected(format!("{count} files"))
        .found(format!("{} of them, without number {missing:?}{more}", there.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_whole_or_what_is_missing_is_named() {
        for whole in [
            &["a.jsonl", "b.jsonl"][..],
            &["d-00000-of-00002.x", "d-00001-of-00002.x", "e.x"],
            &["d-00001-of-00002.x", "d-00002-of-00002.x"],
            &["d.tfrecord-00000-of-00001", "e-0000-of-0001.x"],
            &["d-00000-of-00002-0123456789abcdef.x", "d-00001-of-00002-fedcba9876543210.x"],
        ] {
            assert_eq!(check_complete(whole), Ok(()), "{whole:?}");
        }
        for (torn, declared) in [
            (&["d-00001-of-00002.x"][..], "1 of them, without number [0]"),
            (&["d-00000-of-00002.x", "d-00000-of-00002.y"], "number [1]"),
            (&["a/d-00000-of-00002.x", "b/d-00001-of-00002.x"], "number [1]"),
            (&["d-00000-of-00002-0123456789abcdef.x"], "d-?????-of-00002-*.x"),
            (&["d-00000-of-00002.x", "d-00001-of-00002.x", "d-00002-of-00002.x"], "3, one of them number 0"),
            (&["d-00000-of-00001.x", "d-00002-of-00001.x"], "2, one of them number 2"),
            (&["d-00000-of-00000.x"], "1, one of them number 0"),
            (&["d-00003-of-18446744073709551615.x"], "without number [0, 1, 2, 4, 5, 6, 7, 8] and "),
        ] {
            let error = check_complete(torn).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(declared)), "{torn:?}: {error:?}");
        }
    }
}
