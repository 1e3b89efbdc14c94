//! Pages are the pieces of files that are in memory or are being fetched. This module records which
//! pages exist and how much of the memory budget they use. It decides which pages to evict and
//! which ranges to fetch next, but does not itself wait or transfer data.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::Error;

/// Size of a page in bytes. Only the last page of a fetch may be smaller. The copy stage of a
/// conversion also reads this number of bytes at a time.
pub(crate) const PAGE: u64 = 1 << 20;

/// Ranges with a gap of up to this many bytes between them are fetched together. At 50 ms and 500
/// MB/s, a request takes as long as transferring 25 MB, so fetching the gap costs little.
const MAX_GAP: u64 = 1 << 20;

/// If a read starts at most this many bytes from the end of earlier reads, it continues their
/// sequence. A distance is allowed because several threads read parts of the same sequence.
const MAX_SEQUENCE_GAP: u64 = 8 << 20;

/// Number of bytes that must be read in sequence before prefetching starts.
const MIN_SEQUENCE: u64 = 256 << 10;

/// Number of bytes of pages that are kept after they were read. Such pages may be read again,
/// because headers are read more than once and several formats examine the same bytes.
const MAX_KEPT_BYTES: u64 = 16 << 20;

/// Minimum number of bytes to fetch for a read that finds no page.
pub(crate) const MIN_FETCH: u64 = 128 << 10;

pub(crate) type FetchId = u64;

/// Number that identifies a file within a process.
pub(crate) type FileId = u64;

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Pending(FetchId),
    Present(Arc<Vec<u8>>),
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) len: u64,
    pub(crate) content: Content,
    /// Number of bytes of the page that have been read.
    read: u64,
    /// Number of reads that are waiting for the page.
    pub(crate) waiting: u32,
    /// When the page arrived, the number of bytes that had been read from all files so far.
    came: u64,
}

#[derive(Debug)]
struct FilePages {
    len: u64,
    pages: BTreeMap<u64, Page>,
    /// If set, all further reads of the file fail with this error.
    failed: Option<Error>,
    /// End offset of the last sequence of reads. The next field is the number of bytes in that
    /// sequence.
    end: u64,
    sequence: u64,
    /// End offset of the range that is planned to be prefetched for the sequence.
    ahead: u64,
    /// End offset of the ranges that the caller announced. Before this offset, there is no prefetch
    /// for sequences.
    advised: u64,
}

/// A range of a file to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedFetch {
    pub(crate) file: FileId,
    pub(crate) range: Range<u64>,
}

/// All pages of all files in a process.
#[derive(Debug)]
pub(crate) struct Pages {
    files: HashMap<FileId, FilePages>,
    queue: VecDeque<PlannedFetch>,
    /// Pages that can be evicted because they were read, in the order of reading, with their
    /// lengths. `done_bytes` is the sum of the lengths.
    done: VecDeque<(FileId, u64, u64)>,
    done_bytes: u64,
    /// All pages that have arrived, in the order of their arrival.
    came: VecDeque<(FileId, u64)>,
    spare: Vec<Vec<u8>>,
    budget: u64,
    used: u64,
    read: u64,
    block: u64,
}

impl Pages {
    /// Creates an empty set of pages with a memory budget of `budget` bytes. A single fetch is at
    /// most `block` bytes long.
    pub(crate) fn new(budget: u64, block: u64) -> Self {
        Self {
            files: HashMap::new(),
            queue: VecDeque::new(),
            done: VecDeque::new(),
            done_bytes: 0,
            came: VecDeque::new(),
            spare: Vec::new(),
            budget,
            used: 0,
            read: 0,
            block,
        }
    }

    /// Returns the number of bytes that all pages use.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Registers a file.
    pub(crate) fn begin(&mut self, file: FileId, len: u64) {
        self.files.entry(file).or_insert_with(|| FilePages {
            len,
            pages: BTreeMap::new(),
            failed: None,
            end: 0,
            sequence: 0,
            ahead: 0,
            advised: 0,
        });
    }

    /// Removes a file, including its pages.
    pub(crate) fn end(&mut self, file: FileId) {
        if let Some(pages) = self.files.remove(&file) {
            self.used -= pages.pages.values().map(|page| page.len).sum::<u64>();
        }
        self.queue.retain(|planned| planned.file != file);
    }

    /// Marks a file as changed. Drops the pages of the file, and makes all further reads return the
    /// error.
    pub(crate) fn fail(&mut self, file: FileId, error: &Error) {
        if let Some(pages) = self.files.get_mut(&file) {
            pages.failed.get_or_insert_with(|| error.clone());
        }
        self.queue.retain(|planned| planned.file != file);
    }

    pub(crate) fn failed(&self, file: FileId) -> Option<&Error> {
        self.files.get(&file)?.failed.as_ref()
    }

    /// Returns the page that contains the byte at `offset`, together with the start offset of the
    /// page.
    pub(crate) fn at(&mut self, file: FileId, offset: u64) -> Option<(u64, &mut Page)> {
        let pages = &mut self.files.get_mut(&file)?.pages;
        let (&start, page) = pages.range_mut(..=offset).next_back()?;
        (offset < start + page.len).then_some((start, page))
    }

    /// Returns whether a page is still waiting for the bytes of the given fetch.
    pub(crate) fn is_coming(&self, file: FileId, start: u64, fetch: FetchId) -> bool {
        self.page(file, start).is_some_and(|page| matches!(page.content, Content::Pending(by) if by == fetch))
    }

    /// Creates the missing pages of a range. The given fetch will fill them.
    pub(crate) fn reserve(&mut self, planned: &PlannedFetch, fetch: FetchId) -> Vec<(u64, u64)> {
        let Some(file) = self.files.get_mut(&planned.file) else { return Vec::new() };
        let mut made = Vec::new();
        let mut start = planned.range.start;
        while start < planned.range.end {
            let len = PAGE.min(planned.range.end - start);
            let content = Content::Pending(fetch);
            file.pages.insert(start, Page { len, content, read: 0, waiting: 0, came: 0 });
            self.used += len;
            made.push((start, len));
            start += len;
        }
        made
    }

    /// Stores the bytes of a page.
    pub(crate) fn fill(&mut self, file: FileId, start: u64, bytes: Vec<u8>) {
        let read = self.read;
        let page = self.files.get_mut(&file).and_then(|pages| pages.pages.get_mut(&start));
        match page {
            Some(page) if bytes.len() as u64 == page.len => {
                page.content = Content::Present(Arc::new(bytes));
                page.came = read;
                self.came.push_back((file, start));
                // Pages that no longer exist are removed from the list. Otherwise, the list would
                // grow with every byte that is ever read.
                while self.came.front().is_some_and(|(file, start)| self.page(*file, *start).is_none()) {
                    self.came.pop_front();
                }
            }
            _ => self.keep_spare(bytes),
        }
    }

    /// Removes the pages that a fetch did not fill because it ended early.
    pub(crate) fn give_up(&mut self, file: FileId, fetch: FetchId, pages: &[(u64, u64)]) {
        for (start, len) in pages {
            if self.is_coming(file, *start, fetch) {
                self.files.get_mut(&file).and_then(|pages| pages.pages.remove(start));
                self.used -= len;
            }
        }
    }

    /// Returns an empty buffer for a page.
    pub(crate) fn buffer(&mut self, len: u64) -> Vec<u8> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        match self.spare.pop() {
            Some(spare) if spare.capacity() >= len => spare,
            _ => Vec::with_capacity(len),
        }
    }

    /// Marks a page as evictable. The page need not have been read completely, because often only a
    /// header is read.
    pub(crate) fn may_go(&mut self, file: FileId, start: u64) {
        let Some(len) = self.page(file, start).map(|page| page.len) else { return };
        self.done.push_back((file, start, len));
        self.done_bytes += len;
        // The memory of evicted pages is reused, which is faster than allocating new memory.
        while self.done_bytes > MAX_KEPT_BYTES {
            self.evict_done();
        }
    }

    fn evict_done(&mut self) -> bool {
        let Some((file, start, len)) = self.done.pop_front() else { return false };
        self.done_bytes -= len;
        self.evict(file, start);
        true
    }

    fn page(&self, file: FileId, start: u64) -> Option<&Page> {
        self.files.get(&file)?.pages.get(&start)
    }

    fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() as u64 == PAGE && self.spare.len() < 32 {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Records that `bytes` more bytes of a page were read.
    pub(crate) fn note_read(&mut self, file: FileId, start: u64, bytes: u64) {
        self.read += bytes;
        if let Some(page) = self.files.get_mut(&file).and_then(|pages| pages.pages.get_mut(&start)) {
            let was_whole = page.read >= page.len;
            page.read += bytes;
            if !was_whole && page.read >= page.len {
                self.may_go(file, start);
            }
        }
    }

    /// Evicts pages until `bytes` more bytes fit in the budget. Pages that were read are evicted
    /// first, and then old pages that were never read. Returns whether the bytes fit.
    pub(crate) fn make_room(&mut self, bytes: u64) -> bool {
        while self.used + bytes > self.budget && self.evict_done() {}
        while self.used + bytes > self.budget {
            let Some(&(file, start)) = self.came.front() else { break };
            let page = self.page(file, start);
            // If twice as many bytes as the budget have been read since the page arrived, readers
            // have skipped the page.
            let is_stale = page.is_none_or(|page| self.read >= page.came + 2 * self.budget);
            if !is_stale {
                break;
            }
            self.came.pop_front();
            self.evict(file, start);
        }
        self.used + bytes <= self.budget
    }

    fn evict(&mut self, file: FileId, start: u64) {
        let Some(pages) = self.files.get_mut(&file) else { return };
        let is_idle = |page: &Page| matches!(page.content, Content::Present(_)) && page.waiting == 0;
        if !pages.pages.get(&start).is_some_and(is_idle) {
            return;
        }
        if let Some(Page { len, content: Content::Present(bytes), .. }) = pages.pages.remove(&start) {
            self.used -= len;
            if let Ok(bytes) = Arc::try_unwrap(bytes) {
                self.keep_spare(bytes);
            }
        }
    }

    /// Appends ranges that will be read next to the queue of fetches.
    pub(crate) fn advise(&mut self, file: FileId, ranges: &[Range<u64>]) {
        let Some(len) = self.files.get(&file).map(|pages| pages.len) else { return };
        for range in ranges {
            let (start, end) = (range.start.min(len), range.end.min(len));
            if start >= end {
                continue;
            }
            match self.queue.back_mut() {
                // Ranges are merged only up to the size of a block, so that they are fetched in the
                // order in which they are needed.
                Some(last)
                    if last.file == file
                        && last.range.start <= start
                        && start <= last.range.end.saturating_add(MAX_GAP)
                        && end.saturating_sub(last.range.start) <= self.block =>
                {
                    last.range.end = last.range.end.max(end);
                }
                _ => self.queue.push_back(PlannedFetch { file, range: start..end }),
            }
            if let Some(pages) = self.files.get_mut(&file) {
                pages.advised = pages.advised.max(end);
            }
        }
    }

    /// Records that a read starts. If the read continues a sequence, plans a prefetch.
    pub(crate) fn note_begin(&mut self, file: FileId, range: &Range<u64>) {
        let Some(pages) = self.files.get_mut(&file) else { return };
        let is_near =
            range.start + MAX_SEQUENCE_GAP >= pages.end && range.start <= pages.end + MAX_SEQUENCE_GAP;
        if is_near {
            // Only new bytes count for the length of the sequence. Several formats read the start
            // of a file, and such repeated reads are not progress.
            pages.sequence += range.end.saturating_sub(range.start.max(pages.end));
            pages.end = pages.end.max(range.end);
        } else {
            (pages.sequence, pages.end, pages.ahead) = (0, range.end, range.end);
        }
        if pages.sequence < MIN_SEQUENCE || pages.end <= pages.advised {
            return;
        }
        let wished = (pages.sequence * 2).min(self.budget / 2);
        let from = pages.ahead.max(pages.end);
        let to = (pages.end + wished).min(pages.len);
        // Each step of the prefetch covers at least a quarter of the desired length, so that
        // requests are not too small.
        if to > from && (to - from >= (wished / 4).min(self.block) || to == pages.len) {
            pages.ahead = to;
            self.queue.push_back(PlannedFetch { file, range: from..to });
        }
    }

    /// Returns the next range in the queue that has no pages, limited to the size of a block. The
    /// range remains in the queue until [`begin_next`](Self::begin_next) removes it.
    pub(crate) fn next(&mut self) -> Option<PlannedFetch> {
        loop {
            let front = self.queue.front()?.clone();
            let Some(gap) = self.gap(front.file, front.range.clone()) else {
                self.queue.pop_front();
                continue;
            };
            return Some(PlannedFetch { file: front.file, range: gap });
        }
    }

    /// Removes from the queue the range that [`next`](Self::next) returned.
    pub(crate) fn begin_next(&mut self, next: &PlannedFetch) {
        if let Some(front) = self.queue.front_mut() {
            front.range.start = next.range.end;
            if front.range.is_empty() {
                self.queue.pop_front();
            }
        }
    }

    /// Returns the range to fetch immediately for a read that found no page at `offset`. If a range
    /// in the queue contains `offset`, returns the rest of that range. Otherwise, the length of the
    /// result depends on the current sequence and is at least `MIN_FETCH` bytes.
    pub(crate) fn demand(&mut self, file: FileId, offset: u64, end: u64) -> Option<PlannedFetch> {
        let pages = self.files.get(&file)?;
        let wished =
            match self.queue.iter().find(|planned| planned.file == file && planned.range.contains(&offset)) {
                Some(planned) => planned.range.end.max(end),
                None => end.max(offset + pages.sequence.max(MIN_FETCH)),
            };
        let wished = wished.min(pages.len);
        let gap = self.gap(file, offset..wished.max(end))?;
        // If the range does not fit in memory, fetch only what is being read, up to the size of a
        // page.
        let fits = self.make_room(gap.end - gap.start);
        let end = if fits { gap.end } else { gap.end.min(end.min(offset + PAGE)) };
        self.unplan(file, &(offset..end));
        Some(PlannedFetch { file, range: offset..end })
    }

    /// Removes a range from the queue, because it is being fetched. If the range remained in the
    /// queue and its pages were evicted early, the range would be fetched a second time.
    fn unplan(&mut self, file: FileId, taken: &Range<u64>) {
        let overlaps = |planned: &PlannedFetch| {
            planned.file == file && planned.range.start < taken.end && taken.start < planned.range.end
        };
        while let Some(at) = self.queue.iter().position(overlaps) {
            let Some(PlannedFetch { range, .. }) = self.queue.remove(at) else { break };
            for rest in [taken.end..range.end, range.start..taken.start] {
                if rest.start < rest.end {
                    self.queue.insert(at, PlannedFetch { file, range: rest });
                }
            }
        }
    }

    /// Returns the first part of a range that has no pages, limited to the size of a block.
    fn gap(&self, file: FileId, range: Range<u64>) -> Option<Range<u64>> {
        let pages = &self.files.get(&file)?.pages;
        let mut start = range.start;
        if let Some((before, page)) = pages.range(..=start).next_back() {
            start = start.max(before + page.len);
        }
        while let Some(page) = pages.get(&start) {
            start += page.len;
        }
        if start >= range.end {
            return None;
        }
        let next = pages.range(start..).next().map_or(u64::MAX, |(next, _)| *next);
        Some(start..range.end.min(next).min(start + self.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn here(pages: &mut Pages, file: FileId, range: Range<u64>) {
        for (start, len) in pages.reserve(&PlannedFetch { file, range }, 9) {
            let buffer = pages.buffer(len);
            assert!(buffer.is_empty());
            pages.fill(file, start, vec![0; usize::try_from(len).unwrap()]);
        }
    }

    #[test]
    fn advice_is_joined_across_small_gaps_and_split_into_blocks() {
        let mut pages = Pages::new(64 * MIB, 8 * MIB);
        pages.begin(1, 100 * MIB);
        pages.advise(
            1,
            &[0..MIB, MIB..2 * MIB, 2 * MIB + 1000..3 * MIB, 20 * MIB..40 * MIB, 99 * MIB..200 * MIB],
        );
        let mut ranges = Vec::new();
        while let Some(next) = pages.next() {
            pages.begin_next(&next);
            pages.reserve(&next, 1);
            ranges.push((next.range.start / MIB, next.range.end / MIB));
        }
        assert_eq!(ranges, [(0, 3), (20, 28), (28, 36), (36, 40), (99, 100)]);
        assert_eq!(pages.used(), 24 * MIB);
    }

    #[test]
    fn what_was_read_makes_room_and_what_was_not_stays() {
        let mut pages = Pages::new(4 * MIB, 8 * MIB);
        pages.begin(1, 100 * MIB);
        here(&mut pages, 1, 0..4 * MIB);
        assert!(!pages.make_room(MIB));
        pages.note_read(1, MIB, MIB);
        assert!(pages.make_room(MIB));
        assert!(pages.at(1, MIB).is_none() && pages.at(1, 2 * MIB).is_some());
        // A page becomes stale when twice as many bytes as the budget have been read since its
        // arrival.
        here(&mut pages, 1, 50 * MIB..51 * MIB);
        pages.note_read(2, 0, 9 * MIB);
        assert!(pages.make_room(4 * MIB));
        assert_eq!(pages.used(), 0);
    }

    #[test]
    fn a_read_of_what_does_not_fit_gets_a_page() {
        let mut pages = Pages::new(2 * MIB, 8 * MIB);
        pages.begin(1, 100 * MIB);
        here(&mut pages, 1, 0..2 * MIB);
        let demand = pages.demand(1, 10 * MIB, 14 * MIB).unwrap();
        assert_eq!(demand.range, 10 * MIB..11 * MIB);
    }

    #[test]
    fn reads_in_sequence_are_fetched_ahead_of() {
        let mut pages = Pages::new(64 * MIB, 8 * MIB);
        pages.begin(1, 100 * MIB);
        pages.note_begin(1, &(50 * MIB..50 * MIB + 1000));
        assert_eq!(pages.next(), None);
        for window in 0..4 {
            pages.note_begin(1, &(window * MIB..(window + 1) * MIB));
        }
        let next = pages.next().unwrap();
        assert!(next.range.start >= MIB && next.range.end > next.range.start, "{next:?}");
    }

    #[test]
    fn a_fetch_stops_at_pages_that_are_there() {
        let mut pages = Pages::new(64 * MIB, 8 * MIB);
        pages.begin(1, 100 * MIB);
        here(&mut pages, 1, 2 * MIB..3 * MIB);
        assert_eq!(pages.demand(1, 0, 10).unwrap().range, 0..MIN_FETCH);
        pages.advise(1, &[0..2 * MIB, 2 * MIB..4 * MIB]);
        assert_eq!(pages.demand(1, MIB, MIB + 5).unwrap().range, MIB..2 * MIB);
        assert_eq!(pages.next().unwrap().range, 0..MIB);
        pages.begin_next(&PlannedFetch { file: 1, range: 0..MIB });
        assert_eq!(pages.next().unwrap().range, 3 * MIB..4 * MIB);
        pages.end(1);
        assert_eq!(pages.used(), 0);
    }
}
