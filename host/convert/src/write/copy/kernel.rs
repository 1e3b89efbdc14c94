//! Copies extents in the kernel. `copy_file_range` moves no bytes on file systems that can share
//! blocks between files, and on network file systems whose server makes the copy. On other file
//! systems, `copy_file_range` was slower in measurements than a read and a write with a buffer, so
//! it is not used there.

use super::ranges::RangeSums;
use super::{Fill, Placement, StorageRead};
use crate::platform::{block_size, copy_range};
use rustix::fs::fstat;
use std::fs::File;
use tensorferry_core::context::session::Session;
use tensorferry_core::context::windows::{WINDOW_BYTES, size, windows};
use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::{Context, Result, StorageId};
use tensorferry_tensors::stored::Stored;

/// Minimum size in bytes. Shorter extents are copied in windows, because a separate call for each
/// extent would cost more time than it saves.
const MIN_BYTES: u64 = 256 << 10;

/// Bytes of a storage that are copied to a file unchanged.
pub(super) struct Extent {
    pub(super) file: usize,
    to: u64,
    len: u64,
    storage: StorageId,
    from: u64,
}

/// Removes from a file's placements the extents that the kernel can copy, and returns these
/// extents. Such an extent consists of unchanged bytes that no checksum needs. The source and
/// output of the extent are on the same file system, which can share blocks or copy ranges.
pub(super) fn take(
    file: usize,
    placements: &mut Vec<Placement<'_>>,
    output: &File,
    stored: &Stored<'_>,
    sources: &RangeSums,
    outputs: &RangeSums,
) -> Vec<Extent> {
    let Some(block) = block_size(output) else { return Vec::new() };
    let summed = |extent: &Extent| {
        outputs.touches(file, &(extent.to..extent.to + extent.len))
            || sources.touches(extent.storage.0 as usize, &(extent.from..extent.from + extent.len))
    };
    let mut extents = runs(file, placements);
    extents.retain_mut(|extent| {
        let source = stored.in_file(extent.storage).filter(|(source, _)| same_device(source, output));
        !summed(extent)
            && source.is_some_and(|(_, start)| extent.align(start, block))
            && extent.len >= MIN_BYTES
    });
    leave_out(placements, &extents);
    extents
}

/// Merges reads that are adjacent both in the storage and in the file.
fn runs(file: usize, placements: &[Placement<'_>]) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for placement in placements {
        let Fill::Read(StorageRead { storage, from, swap_unit: 1, .. }) = placement.fill else { continue };
        match runs.last_mut() {
            Some(last)
                if last.storage == storage
                    && last.to + last.len == placement.to
                    && last.from + last.len == from =>
            {
                last.len += placement.len;
            }
            _ => runs.push(Extent { file, to: placement.to, len: placement.len, storage, from }),
        }
    }
    runs
}

/// Removes the bytes of the extents from the reads. Extents and placements are in the same order.
fn leave_out(placements: &mut Vec<Placement<'_>>, extents: &[Extent]) {
    let mut kept = Vec::with_capacity(placements.len());
    for placement in placements.drain(..) {
        let Fill::Read(read) = placement.fill else {
            kept.push(placement);
            continue;
        };
        let end = placement.to + placement.len;
        let next = extents.partition_point(|extent| extent.to + extent.len <= placement.to);
        let (start, stop) =
            extents.get(next).map_or((end, end), |extent| (extent.to, extent.to + extent.len));
        let mut keep = |to: u64, until: u64| {
            if to < until {
                let from = read.from + (to - placement.to);
                kept.push(Placement { to, len: until - to, fill: Fill::Read(StorageRead { from, ..read }) });
            }
        };
        keep(placement.to, start.clamp(placement.to, end));
        keep(stop.clamp(placement.to, end), end);
    }
    *placements = kept;
}

fn same_device(a: &File, b: &File) -> bool {
    matches!((fstat(a), fstat(b)), (Ok(a), Ok(b)) if a.st_dev == b.st_dev)
}

impl Extent {
    /// Shrinks the extent to whole blocks of both files. Returns `false` if no block remains, or if
    /// the blocks of the two files are not aligned with each other. `start` is the offset of the
    /// storage in its file.
    fn align(&mut self, start: u64, block: u64) -> bool {
        let begin = self.to.next_multiple_of(block);
        let end = (self.to + self.len) / block * block;
        if (start + self.from) % block != self.to % block || begin >= end {
            return false;
        }
        self.from += begin - self.to;
        self.to = begin;
        self.len = end - begin;
        true
    }

    /// Copies the extent in the kernel. If the kernel refuses to copy part of it, that part is
    /// copied through a buffer.
    pub(super) fn copy(
        &self,
        stored: &Stored<'_>,
        files: &[OutputBytes],
        session: &Session,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let mut done = 0;
        if let (Some((source, start)), Some(output)) =
            (stored.in_file(self.storage), files[self.file].local()?)
        {
            while done < self.len {
                session.check_cancelled()?;
                let (from, to) = (start + self.from + done, self.to + done);
                let len = size(self.len - done).min(64 << 20);
                let copied = copy_range(&source, from, &output, to, len) as u64;
                if copied == 0 {
                    break;
                }
                done += copied;
                session.count(copied);
            }
        }
        buffer.resize(WINDOW_BYTES, 0);
        windows(done..self.len).try_for_each(|(done, len)| {
            session.check_cancelled()?;
            let part = &mut buffer[..len];
            stored.read(self.storage, self.from + done, part)?;
            files[self.file].write_all_at(part, self.to + done)?;
            session.count(len as u64);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const BLOCK: u64 = 4096;

    fn read(to: u64, len: u64, from: u64) -> Placement<'static> {
        let read = StorageRead { storage: StorageId(0), from, swap_unit: 1, tally: None };
        Placement { to, len, fill: Fill::Read(read) }
    }

    fn facts(placements: &[Placement<'_>]) -> Vec<(u64, u64, u64)> {
        let facts = |placement: &Placement<'_>| match placement.fill {
            Fill::Read(read) => Some((placement.to, placement.len, read.from)),
            _ => None,
        };
        placements.iter().filter_map(facts).collect()
    }

    #[test]
    fn whole_blocks_are_left_out_and_the_rest_is_kept() {
        // The storage starts at byte 1000 of its file, and its bytes start at byte 1000 of the
        // output, so the blocks are aligned.
        let mut placements = vec![read(1000, 5000, 0), read(6000, 8000, 5000), read(20000, 100, 0)];
        let mut extents = runs(0, &placements);
        assert_eq!(extents.len(), 2);
        assert!(extents[0].align(1000, BLOCK));
        assert_eq!((extents[0].to, extents[0].len, extents[0].from), (4096, 8192, 3096));
        assert!(!extents[1].align(1000, BLOCK));
        extents.pop();
        leave_out(&mut placements, &extents);
        assert_eq!(facts(&placements), [(1000, 3096, 0), (12288, 1712, 11288), (20000, 100, 0)]);
    }

    #[test]
    fn blocks_that_do_not_fall_together_are_not_shared() {
        let mut extent = runs(0, &[read(8, 1 << 20, 0)]).pop().unwrap();
        assert!(!extent.align(0, BLOCK));
        assert!(extent.align(0, 1));
        assert_eq!((extent.to, extent.len), (8, 1 << 20));
    }
}
