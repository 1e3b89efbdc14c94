//! Checksums of byte ranges, which are combined from the checksums of the pieces that the copy
//! processes.

use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use tensorferry_core::context::windows::size;
use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::{CatalogView, Checksum, Digest, DigestAlgorithm, Layout, Result, StorageId};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::slabs::Slabs;
use tensorferry_tensors::stored::{Stored, checksum};

/// A range of a file or a storage whose checksum is needed.
struct ChecksumRange {
    owner: usize,
    range: Range<u64>,
    algorithm: DigestAlgorithm,
    seen: Mutex<RangeChecksum>,
}

/// All ranges whose checksums are needed. Each range is either a storage that has a digest, or a
/// range of an output file for which the layout requests a digest.
pub(super) struct RangeSums {
    wanted: Vec<ChecksumRange>,
    by_owner: HashMap<usize, OwnerRanges>,
}

/// The ranges of one file or storage, sorted by their start.
#[derive(Default)]
struct OwnerRanges {
    indices: Vec<usize>,
    /// Whether any two ranges overlap. Overlapping ranges may not be sorted by their end.
    overlap: bool,
}

impl RangeSums {
    /// Collects the storages that have a digest and that a tensor uses. Two kinds of storages are
    /// not included. Decoded storages are checked when they are decoded. Tiles are checked when a
    /// slab reads the whole tile, because there may be millions of tiles.
    pub(super) fn of_storages<'s>(
        logical: &Logical<'_>,
        tiled: impl IntoIterator<Item = &'s Slabs<'s>>,
    ) -> Self {
        let storages = logical.catalog().storages();
        let mut used = vec![false; storages.len()];
        for id in logical.tensor_ids() {
            for storage in logical.storages_of(id).unwrap_or_default() {
                used[storage.0 as usize] = true;
            }
        }
        for slabs in tiled {
            slabs.checked(logical.stored()).for_each(|storage| used[storage.0 as usize] = false);
        }
        let wanted = storages.iter().enumerate().filter(|(index, storage)| {
            used[*index] && !matches!(storage.location, tensorferry_sdk::StorageLocation::Encoded { .. })
        });
        let wanted = wanted.filter_map(|(owner, storage)| {
            let digest = storage.digest.as_ref()?;
            Some((owner, 0..storage.len, digest.algorithm))
        });
        Self::new(wanted)
    }

    pub(super) fn of_outputs(layout: &Layout) -> Self {
        let wanted = layout.digests().iter().map(|r| (r.file.0 as usize, r.range.clone(), r.algorithm));
        Self::new(wanted)
    }

    fn new(wanted: impl Iterator<Item = (usize, Range<u64>, DigestAlgorithm)>) -> Self {
        let wanted: Vec<ChecksumRange> = wanted
            .map(|(owner, range, algorithm)| ChecksumRange {
                owner,
                range,
                algorithm,
                seen: Mutex::new(RangeChecksum::Parts(SummedParts::default())),
            })
            .collect();
        let mut by_owner: HashMap<usize, OwnerRanges> = HashMap::new();
        for (index, want) in wanted.iter().enumerate() {
            by_owner.entry(want.owner).or_default().indices.push(index);
        }
        for ranges in by_owner.values_mut() {
            let range = |index: &usize| &wanted[*index].range;
            ranges.indices.sort_by_key(|index| (range(index).start, range(index).end));
            ranges.overlap =
                ranges.indices.windows(2).any(|pair| range(&pair[0]).end > range(&pair[1]).start);
        }
        Self { wanted, by_owner }
    }

    /// Returns the number of ranges whose checksums are needed.
    #[cfg(test)]
    pub(super) fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// Returns whether any checksum covers bytes of this range.
    pub(super) fn touches(&self, owner: usize, range: &Range<u64>) -> bool {
        self.overlapping(owner, range).next().is_some()
    }

    fn overlapping(&self, owner: usize, range: &Range<u64>) -> impl Iterator<Item = &ChecksumRange> + '_ {
        let of_owner = self.by_owner.get(&owner);
        let (indices, overlap) = of_owner.map_or((&[][..], false), |of| (&of.indices, of.overlap));
        let (start, end) = (range.start, range.end);
        let first =
            if overlap { 0 } else { indices.partition_point(|&index| self.wanted[index].range.end <= start) };
        indices[first..]
            .iter()
            .map(|&index| &self.wanted[index])
            .take_while(move |want| want.range.start < end)
            .filter(move |want| want.range.end > start)
    }

    /// Adds bytes of a storage in their stored form.
    pub(super) fn add_read(&self, storage: StorageId, from: u64, bytes: &[u8]) -> Result<()> {
        self.add(storage.0 as usize, from, bytes, &(from..from + bytes.len() as u64))
    }

    /// Adds a written window. `runs` are the filled parts of the window.
    pub(super) fn add_window(
        &self,
        file: usize,
        start: u64,
        bytes: &[u8],
        runs: &[Range<u64>],
    ) -> Result<()> {
        runs.iter().try_for_each(|run| self.add(file, start, bytes, run))
    }

    fn add(&self, owner: usize, start: u64, bytes: &[u8], filled: &Range<u64>) -> Result<()> {
        for want in self.overlapping(owner, filled) {
            let from = want.range.start.max(filled.start);
            let to = want.range.end.min(filled.end);
            let mut sum = want.algorithm.start()?;
            sum.update(&bytes[size(from - start)..size(to - start)]);
            want.add(from, sum);
        }
        Ok(())
    }

    /// Returns the digests in the order in which they were requested. Ranges whose bytes were not
    /// all added are read back from the files.
    pub(super) fn finish(&self, files: &[OutputBytes]) -> Result<Vec<Digest>> {
        self.wanted
            .par_iter()
            .map(|want| match want.joined()? {
                Some(sum) => Ok(sum.digest()),
                None => {
                    let read = |offset, buffer: &mut [u8]| files[want.owner].read_exact_at(buffer, offset);
                    Ok(checksum(want.range.clone(), want.algorithm, read)?.digest())
                }
            })
            .collect()
    }

    /// Compares the input's storages with the digests that the input's files contain. If tensors
    /// use only a part of a storage, the remaining bytes have not been read, and the storage is
    /// read now.
    pub(super) fn check_storages(&self, stored: &Stored<'_>) -> Result<()> {
        let mut unseen = Vec::new();
        for want in &self.wanted {
            let id = StorageId(u32::try_from(want.owner).unwrap_or(u32::MAX));
            let Some(sum) = want.joined()? else {
                unseen.push(id);
                continue;
            };
            if let Some(expected) = &stored.storage(id)?.digest
                && sum.digest() != *expected
            {
                return Err(stored.mismatch(id, expected, &sum.digest()));
            }
        }
        stored.check_digests(&unseen)
    }
}

impl ChecksumRange {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn add(&self, from: u64, sum: Checksum) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let RangeChecksum::Parts(parts) = &mut *seen else { return };
        // This shortcut applies to most ranges, each of which is one small tensor in a single
        // window.
        let joined = if sum.len() == self.len() { Some(sum) } else { parts.add(from, sum) };
        if let Some(whole) = joined.filter(|joined| joined.len() == self.len()) {
            *seen = RangeChecksum::Whole(whole);
        }
    }

    /// Returns the checksum of the whole range, or `None` if parts of the range were not added.
    fn joined(&self) -> Result<Option<Checksum>> {
        if self.len() == 0 {
            return self.algorithm.start().map(Some);
        }
        match &*self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            RangeChecksum::Whole(whole) => Ok(Some(*whole)),
            RangeChecksum::Parts(_) => Ok(None),
        }
    }
}

/// The checksums of the parts of a range that were added.
enum RangeChecksum {
    Whole(Checksum),
    Parts(SummedParts),
}

/// The checksums of the parts that were added. Each new part is joined with the parts next to it.
/// If the copy advances in only a few places at a time, only a few parts remain. A part that is
/// added twice (for two tied tensors) counts once. If such a part was cut at different positions
/// the second time, some parts may not join, and the range is read back.
#[derive(Default)]
struct SummedParts {
    by_start: BTreeMap<u64, Checksum>,
    /// The start of the longest part that ends at each position.
    starts: BTreeMap<u64, u64>,
}

impl SummedParts {
    /// Adds a part, and returns the joined part that contains the new part. Returns `None` if a
    /// part that starts at the same offset is at least as long.
    fn add(&mut self, from: u64, part: Checksum) -> Option<Checksum> {
        let (mut start, mut sum) = (from, part);
        if let Some(before) = self.starts.remove(&from)
            && let Some(longer) = self.by_start.remove(&before)
        {
            (start, sum) = (before, longer.join(sum));
        }
        if let Some(after) = self.by_start.remove(&(start + sum.len())) {
            self.forget_end(start + sum.len(), &after);
            sum = sum.join(after);
        }
        if let Some(other) = self.by_start.get(&start).copied() {
            if other.len() >= sum.len() {
                return None;
            }
            self.forget_end(start, &other);
        }
        self.by_start.insert(start, sum);
        let longest = self.starts.entry(start + sum.len()).or_insert(start);
        *longest = start.min(*longest);
        Some(sum)
    }

    fn forget_end(&mut self, start: u64, sum: &Checksum) {
        let end = start + sum.len();
        if self.starts.get(&end) == Some(&start) {
            self.starts.remove(&end);
        }
    }
}

/// Joins adjacent ranges. The ranges must be sorted.
pub(super) fn covered(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => runs.push(range),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const LEN: u64 = 1000;

    fn sum(bytes: Range<u64>) -> Checksum {
        let mut sum = DigestAlgorithm::CRC32C.start().unwrap();
        sum.update(&bytes.map(|byte| u8::try_from(byte % 251).unwrap()).collect::<Vec<_>>());
        sum
    }

    fn added(parts: impl IntoIterator<Item = Range<u64>>) -> ChecksumRange {
        let wanted = ChecksumRange {
            owner: 0,
            range: 0..LEN,
            algorithm: DigestAlgorithm::CRC32C,
            seen: Mutex::new(RangeChecksum::Parts(SummedParts::default())),
        };
        for part in parts {
            wanted.add(part.start, sum(part));
        }
        wanted
    }

    fn cut(step: usize) -> Vec<Range<u64>> {
        (0..LEN).step_by(step).map(|start| start..(start + step as u64).min(LEN)).collect()
    }

    #[test]
    fn parts_are_joined_in_whatever_order_they_come() {
        let whole = sum(0..LEN).digest();
        let mut parts = cut(7);
        for turn in [1, 13, 50, 142] {
            parts.rotate_left(turn % 7);
            parts.chunks_mut(turn).for_each(<[_]>::reverse);
            assert_eq!(added(parts.clone()).joined().unwrap().unwrap().digest(), whole, "{turn}");
        }
        // Add each part twice: once in the same pieces, and once in different pieces.
        let twice = cut(7).into_iter().zip(cut(7)).flat_map(|(a, b)| [a, b]);
        assert_eq!(added(twice).joined().unwrap().unwrap().digest(), whole);
        let otherwise = cut(10).into_iter().rev().chain(cut(7));
        assert!(added(otherwise).joined().unwrap().is_none_or(|sum| sum.digest() == whole));
        assert!(added(cut(7).into_iter().skip(1)).joined().unwrap().is_none());
        assert!(added(cut(7).into_iter().take(100)).joined().unwrap().is_none());
    }

    #[test]
    fn a_copy_that_goes_forward_holds_one_sum() {
        let wanted = added(cut(1).into_iter().take(999));
        let RangeChecksum::Parts(parts) = &*wanted.seen.lock().unwrap() else {
            panic!("one byte is missing")
        };
        assert_eq!((parts.by_start.len(), parts.starts.len()), (1, 1));
    }
}
