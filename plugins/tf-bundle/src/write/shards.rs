//! A shard is a data file that contains a part of a bundle's bytes. Each shard contains consecutive
//! keys, so the split depends only on the names and lengths of tensors.

use crate::options::Sharding;
use std::ops::Range;

/// Splits consecutive segments of bytes into runs, with one run for each shard. Returns no runs if
/// there are no segments.
pub(super) fn split(lengths: &[u64], sharding: Sharding) -> Vec<Range<usize>> {
    match sharding {
        Sharding::Whole => by_count(lengths, 1),
        Sharding::Count(count) => by_count(lengths, usize::try_from(count).unwrap_or(usize::MAX)),
        Sharding::AtMost(max) => by_size(lengths, max),
    }
}

/// Splits segments into `count` runs, or into one run per segment if there are fewer segments. Each
/// run ends as close as possible to an equal share of the remaining bytes.
fn by_count(lengths: &[u64], count: usize) -> Vec<Range<usize>> {
    let count = count.min(lengths.len());
    let mut left: u128 = lengths.iter().map(|&len| u128::from(len)).sum();
    let mut runs = Vec::with_capacity(count);
    let mut start = 0;
    for shards_left in (1..=count).rev() {
        let share = left / shards_left as u128;
        // Each of the remaining shards needs at least one segment.
        let last_end = lengths.len() - (shards_left - 1);
        let mut end = start + 1;
        let mut bytes = u128::from(lengths[start]);
        while end < last_end {
            let next = u128::from(lengths[end]);
            if shards_left > 1 && (bytes + next).abs_diff(share) > bytes.abs_diff(share) {
                break;
            }
            bytes += next;
            end += 1;
        }
        runs.push(start..end);
        left -= bytes;
        start = end;
    }
    runs
}

/// Starts a new shard before a segment that would make the current shard longer than `max` bytes. A
/// segment that is longer than `max` gets its own shard.
fn by_size(lengths: &[u64], max: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0_u64;
    for (index, &len) in lengths.iter().enumerate() {
        bytes = bytes.saturating_add(len);
        match runs.last_mut() {
            Some(run) if bytes <= max => run.end = index + 1,
            _ => {
                runs.push(index..index + 1);
                bytes = len;
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lengths: &[u64], sharding: Sharding) -> Vec<usize> {
        let runs = split(lengths, sharding);
        assert!(runs.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(runs.last().map_or(0, |run| run.end), lengths.len());
        runs.into_iter().map(|run| run.len()).collect()
    }

    #[test]
    fn shards_are_balanced_and_none_is_empty() {
        assert_eq!(counts(&[1, 1, 1, 1], Sharding::Whole), [4]);
        assert_eq!(counts(&[1, 1, 1, 1], Sharding::Count(2)), [2, 2]);
        assert_eq!(counts(&[90, 5, 5], Sharding::Count(3)), [1, 1, 1]);
        assert_eq!(counts(&[10, 90], Sharding::Count(2)), [1, 1]);
        assert_eq!(counts(&[0, 0, 0], Sharding::Count(2)), [2, 1]);
        assert_eq!(counts(&[3, 3, 3, 3, 3, 3, 3], Sharding::Count(3)), [2, 2, 3]);
        assert_eq!(counts(&[1, 2], Sharding::Count(u64::MAX)), [1, 1]);
        assert_eq!(counts(&[u64::MAX, u64::MAX, 1], Sharding::Count(2)), [1, 2]);
        assert!(counts(&[], Sharding::Count(2)).is_empty());
    }

    #[test]
    fn no_shard_is_over_its_size_but_one_stretch() {
        assert_eq!(counts(&[6, 6, 2, 6, 2, 2], Sharding::AtMost(10)), [1, 2, 3]);
        assert_eq!(counts(&[4, 11, 4, 4], Sharding::AtMost(10)), [1, 1, 2]);
        assert_eq!(counts(&[u64::MAX, 20, 0], Sharding::AtMost(10)), [1, 1, 1]);
        assert!(counts(&[], Sharding::AtMost(1)).is_empty());
    }
}
