//! Announces reads of a remote input well before they happen, in the order of the copy's tasks. The
//! input can then fetch the data early, so that the copy does not wait for the network.

use super::{CopyTask, CopyTasks, FilePlacements, Fill};
use std::sync::{Mutex, PoisonError};
use tensorferry_core::context::windows::WINDOW_BYTES;
use tensorferry_sdk::{FileRange, Source};
use tensorferry_tensors::stored::Stored;

pub(super) struct ReadAhead<'a> {
    stored: &'a Stored<'a>,
    tasks: &'a CopyTasks<'a>,
    filled: &'a FilePlacements<'a>,
    /// The number of tasks whose reads are announced in advance.
    distance: usize,
    /// The number of the first task whose reads have not been announced.
    next: Mutex<usize>,
}

impl<'a> ReadAhead<'a> {
    /// Creates the announcements for a copy. Returns `None` for local inputs, because the operating
    /// system reads local files ahead.
    pub(super) fn new(
        stored: &'a Stored<'a>,
        tasks: &'a CopyTasks<'a>,
        filled: &'a FilePlacements<'a>,
    ) -> Option<Self> {
        if stored.source().is_local() {
            return None;
        }
        let distance = usize::try_from(stored.session().memory).unwrap_or(usize::MAX) / WINDOW_BYTES + 1;
        Some(Self { stored, tasks, filled, distance, next: Mutex::default() })
    }

    /// Announces the reads of the next `distance` tasks, starting with this one.
    pub(super) fn begin(&self, number: usize) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let end = number.saturating_add(self.distance).min(self.tasks.count());
        let mut ranges = Vec::new();
        while *next < end {
            self.add(&self.tasks.get(*next), &mut ranges);
            *next += 1;
        }
        // Merge adjacent ranges of a file.
        ranges.dedup_by(|then, range| {
            let follows = then.file == range.file && range.offset + range.len == then.offset;
            range.len += if follows { then.len } else { 0 };
            follows
        });
        if !ranges.is_empty() {
            self.stored.source().advise(&ranges);
        }
    }

    fn add(&self, task: &CopyTask<'_>, ranges: &mut Vec<FileRange>) {
        match task {
            CopyTask::Window { file, start, end } => {
                let placements = &self.filled.files[*file];
                let first = placements.partition_point(|p| p.to + p.len <= *start);
                for placement in placements[first..].iter().take_while(|p| p.to < *end) {
                    let Fill::Read(read) = &placement.fill else { continue };
                    let from = placement.to.max(*start);
                    let len = (placement.to + placement.len).min(*end) - from;
                    self.stored.add_file_ranges(read.storage, read.from + (from - placement.to), len, ranges);
                }
            }
            // The kernel copies only local files, and the other tasks do not read in file order.
            CopyTask::Kernel(_) | CopyTask::Gather(_) | CopyTask::Slab(..) | CopyTask::Stream { .. } => {}
        }
    }
}
