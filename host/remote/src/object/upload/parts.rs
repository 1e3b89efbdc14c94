//! Tracks the parts of an object that is being written. The module records which bytes of each part
//! have been written, and buffers these bytes. Late bytes are those that are written after
//! all other bytes of the object.

use crate::budget::Reservation;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use tensorferry_sdk::{Error, Result};

/// Parts of equal size, except for the last part.
pub(super) struct Parts {
    pub(super) part_bytes: u64,
    /// The length of the object, once the length is known.
    pub(super) len: Option<u64>,
    /// End offset of the bytes that have been written so far.
    pub(super) end: u64,
    /// For each part, the number of its late bytes that have not been written yet.
    late: BTreeMap<usize, u64>,
    /// Parts that have been started but not uploaded yet.
    open: BTreeMap<usize, Part>,
    /// A temporary file for parts that were moved out of memory. Each part is at its own offset.
    file: Option<File>,
}

struct Part {
    place: PartPlace,
    /// The ranges of the part that have been written, sorted by offset. Adjacent ranges are merged.
    filled: Vec<Range<u64>>,
}

enum PartPlace {
    Memory(Vec<u8>, Reservation),
    Spilled,
}

impl Parts {
    pub(super) fn new(part_bytes: u64, len: Option<u64>, late: &[Range<u64>]) -> Self {
        let mut waits = BTreeMap::new();
        for range in late {
            for (number, at) in split(part_bytes, range.clone()) {
                *waits.entry(number).or_default() += at.end - at.start;
            }
        }
        Self { part_bytes, len, end: 0, late: waits, open: BTreeMap::new(), file: None }
    }

    /// Returns the length of a part. While the length of the object is unknown, every part has the
    /// full length.
    pub(super) fn part_len(&self, number: usize) -> u64 {
        let start = number as u64 * self.part_bytes;
        self.len.map_or(self.part_bytes, |len| len.saturating_sub(start).min(self.part_bytes))
    }

    /// Returns the number of parts, once the object's length is known.
    pub(super) fn count(&self) -> usize {
        usize::try_from(self.len.unwrap_or(self.end).div_ceil(self.part_bytes)).unwrap_or(usize::MAX)
    }

    pub(super) fn is_open(&self, number: usize) -> bool {
        self.open.contains_key(&number)
    }

    /// Returns the first part that has not been uploaded yet.
    pub(super) fn first_open(&self) -> Option<usize> {
        self.open.keys().next().copied()
    }

    /// Starts a part. The part is kept in memory or, if `memory` is `None`, in a file.
    pub(super) fn begin(&mut self, number: usize, memory: Option<Reservation>) -> Result<()> {
        let place = match memory {
            Some(held) => {
                let len = usize::try_from(self.part_len(number)).map_err(|_| Error::limit("a part"))?;
                PartPlace::Memory(vec![0; len], held)
            }
            None => {
                self.file()?;
                PartPlace::Spilled
            }
        };
        self.open.insert(number, Part { place, filled: Vec::new() });
        Ok(())
    }

    fn file(&mut self) -> Result<&File> {
        if self.file.is_none() {
            let failed = |error| Error::from(error).context("cannot buffer an upload in a file");
            self.file = Some(tempfile::tempfile().map_err(failed)?);
        }
        self.file.as_ref().ok_or_else(|| Error::io("no file to buffer the upload"))
    }

    /// Writes bytes at offset `at` of an open part. Late bytes are subtracted from the number of
    /// late bytes that the part still needs.
    pub(super) fn put(&mut self, number: usize, at: u64, bytes: &[u8], is_late: bool) -> Result<()> {
        let (end, start) = (at + bytes.len() as u64, number as u64 * self.part_bytes);
        if end > self.part_len(number) {
            return Err(Error::plugin("bytes past the end of the output").offset(start + at));
        }
        let Some(part) = self.open.get_mut(&number) else {
            return Err(Error::plugin("bytes of the output were written twice").offset(start + at));
        };
        match (&mut part.place, &self.file) {
            (PartPlace::Memory(memory, _), _) => {
                let at = usize::try_from(at).map_err(|_| Error::limit("a part"))?;
                memory[at..at + bytes.len()].copy_from_slice(bytes);
            }
            (PartPlace::Spilled, Some(file)) => file.write_all_at(bytes, start + at)?,
            (PartPlace::Spilled, None) => return Err(Error::io("no file to buffer the upload")),
        }
        add(&mut part.filled, at..end);
        self.end = self.end.max(start + end);
        if is_late && let Some(waits) = self.late.get_mut(&number) {
            *waits = waits.saturating_sub(bytes.len() as u64);
        }
        Ok(())
    }

    fn is_filled(&self, number: usize) -> bool {
        let len = self.part_len(number);
        self.open
            .get(&number)
            .is_some_and(|part| len == 0 || matches!(&*part.filled, [all] if *all == (0..len)))
    }

    /// Returns whether all bytes of a part are present, including late ones.
    pub(super) fn is_whole(&self, number: usize) -> bool {
        self.is_filled(number) && self.late.get(&number).is_none_or(|waits| *waits == 0)
    }

    /// Returns whether the only missing bytes of a part are those that are provided late.
    pub(super) fn waits_for_late(&self, number: usize) -> bool {
        self.is_filled(number) && !self.is_whole(number)
    }

    /// Moves a part from memory to the file.
    pub(super) fn spill(&mut self, number: usize) -> Result<()> {
        self.file()?;
        let (part, file) = (self.open.get_mut(&number), self.file.as_ref());
        if let (Some(part), Some(file)) = (part, file)
            && let PartPlace::Memory(bytes, _) = &part.place
        {
            file.write_all_at(bytes, number as u64 * self.part_bytes)?;
            part.place = PartPlace::Spilled;
        }
        Ok(())
    }

    pub(super) fn is_spilled(&self, number: usize) -> bool {
        self.open.get(&number).is_some_and(|part| matches!(part.place, PartPlace::Spilled))
    }

    /// Removes a complete part, and returns its bytes and its memory. If the part is in the file,
    /// the caller must pass `memory` for loading it.
    pub(super) fn take(
        &mut self,
        number: usize,
        memory: Option<Reservation>,
    ) -> Result<Option<(Vec<u8>, Reservation)>> {
        let len = self.part_len(number);
        let cut = usize::try_from(len).map_err(|_| Error::limit("a part"))?;
        match (self.open.remove(&number).map(|part| part.place), memory, &self.file) {
            (Some(PartPlace::Memory(mut bytes, held)), ..) => {
                bytes.truncate(cut);
                Ok(Some((bytes, held)))
            }
            (Some(PartPlace::Spilled), Some(held), Some(file)) => {
                let mut bytes = vec![0; cut];
                file.read_exact_at(&mut bytes, number as u64 * self.part_bytes)?;
                Ok(Some((bytes, held)))
            }
            _ => Ok(None),
        }
    }
}

/// Divides a range of the object among the parts that it covers. Returns each part's number with
/// the range in that part.
pub(super) fn split(part_bytes: u64, range: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let number = at / part_bytes;
        let (start, until) = (at, range.end.min((number + 1) * part_bytes));
        at = until;
        let first = number * part_bytes;
        (start < until).then(|| (usize::try_from(number).unwrap_or(usize::MAX), start - first..until - first))
    })
}

/// Inserts a range into sorted ranges, and merges adjacent ranges.
fn add(ranges: &mut Vec<Range<u64>>, new: Range<u64>) {
    if new.is_empty() {
        return;
    }
    let first = ranges.partition_point(|range| range.end < new.start);
    let source_of = ranges.partition_point(|range| range.start <= new.end);
    let joined = ranges[first..source_of]
        .iter()
        .fold(new, |all, range| all.start.min(range.start)..all.end.max(range.end));
    ranges.splice(first..source_of, [joined]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::cache::Cancelled;
    use std::sync::Arc;

    fn memory(bytes: u64) -> Option<Reservation> {
        let never: Cancelled = Arc::new(|| false);
        Budget::new(1 << 20).take(bytes, &never).unwrap()
    }

    #[test]
    fn ranges_are_split_at_parts_and_joined_where_they_touch() {
        assert_eq!(split(10, 5..25).collect::<Vec<_>>(), [(0, 5..10), (1, 0..10), (2, 0..5)]);
        assert_eq!(split(10, 10..10).count(), 0);
        let mut ranges = Vec::new();
        for range in [5..6, 0..1, 8..9, 1..5, 6..8] {
            add(&mut ranges, range);
        }
        assert_eq!((ranges.len(), &ranges[0]), (1, &(0..9)));
    }

    #[test]
    fn a_part_is_whole_when_each_byte_came_and_late_ones_twice() {
        for is_spilled in [false, true] {
            let mut parts = Parts::new(10, Some(14), std::slice::from_ref(&(8..12)));
            assert_eq!((parts.count(), parts.part_len(1)), (2, 4));
            for number in [0, 1] {
                parts.begin(number, memory(10).filter(|_| !is_spilled)).unwrap();
            }
            parts.put(0, 4, b"efgh00", false).unwrap();
            assert!(!parts.waits_for_late(0));
            parts.put(0, 0, b"abcd", false).unwrap();
            assert!(parts.waits_for_late(0) && !parts.is_whole(0));
            parts.spill(0).unwrap();
            assert!(parts.is_spilled(0));
            parts.put(0, 8, b"ij", true).unwrap();
            assert!(parts.is_whole(0));
            parts.put(1, 0, b"00mn", false).unwrap();
            parts.put(1, 0, b"kl", true).unwrap();
            let taken: Vec<Vec<u8>> =
                [0, 1].map(|number| parts.take(number, memory(10)).unwrap().unwrap().0).into();
            assert_eq!(taken, [b"abcdefghij".to_vec(), b"klmn".to_vec()]);
            // Bytes that have been uploaded cannot be written again, and bytes after the end cannot
            // be written.
            parts.put(0, 0, b"a", false).unwrap_err();
            parts.put(1, 4, b"o", false).unwrap_err();
        }
    }

    #[test]
    fn of_an_unknown_length_the_last_part_is_cut() {
        let mut parts = Parts::new(10, None, &[]);
        parts.begin(0, memory(10)).unwrap();
        parts.put(0, 0, b"abc", false).unwrap();
        assert!(!parts.is_whole(0));
        parts.len = Some(parts.end);
        assert!(parts.is_whole(0));
        assert_eq!(parts.take(0, None).unwrap().unwrap().0, b"abc");
    }
}
