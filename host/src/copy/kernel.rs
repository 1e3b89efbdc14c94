//! Extents that the kernel copies: on file systems that share blocks between files (and on network
//! file systems, where the server copies), `copy_file_range` moves no bytes at all. Elsewhere it was
//! measured slower than reading into a buffer and writing it, and is not used.

use super::ranges::RangeSums;
use super::{Fill, Placement, size};
use crate::run::{Run, WINDOW_BYTES};
use crate::stored::Stored;
use rustix::fs::{copy_file_range, fstat, fstatfs};
use std::fs::File;
use std::os::unix::fs::FileExt;
use tensorferry_sdk::{Context, Result, StorageId};

/// Shorter extents are left to the windows: one call for each would cost more than it saves.
const SHORTEST: u64 = 256 << 10;

/// File systems (`statfs(2)`'s magic numbers) whose `copy_file_range` shares blocks or is done by
/// the server: btrfs, xfs, bcachefs, nfs, cifs/smb2, ocfs2.
const SHARING: [u64; 6] = [0x9123_683e, 0x5846_5342, 0xca45_1a4e, 0x6969, 0xff53_4d42, 0x7461_636f];

/// Bytes of a storage that go to a file as they are.
pub(super) struct Extent {
    pub(super) file: usize,
    to: u64,
    len: u64,
    storage: StorageId,
    from: u64,
}

/// Takes out of a file's placements what the kernel can copy: bytes that go as they are, that no
/// checksum needs, between files of one file system that shares blocks.
pub(super) fn take(
    file: usize,
    placements: &mut Vec<Placement<'_>>,
    output: &File,
    stored: &Stored<'_>,
    sources: &RangeSums,
    outputs: &RangeSums,
) -> Vec<Extent> {
    let mut extents = Vec::new();
    if !shares_blocks(output) {
        return extents;
    }
    placements.retain(|placement| {
        let Fill::Read { storage, from, swap_unit: 1 } = placement.fill else { return true };
        let (to, len) = (placement.to, placement.len);
        let summed = outputs.touches(file, &(to..to + len))
            || sources.touches(storage.0 as usize, &(from..from + len));
        let near = || stored.in_file(storage).is_some_and(|(source, _)| same_device(&source, output));
        let taken = len >= SHORTEST && !summed && near();
        if taken {
            extents.push(Extent { file, to, len, storage, from });
        }
        !taken
    });
    extents
}

fn shares_blocks(file: &File) -> bool {
    // The magic numbers are 32 bits, sign-extended on some platforms.
    fstatfs(file).is_ok_and(|facts| SHARING.contains(&(facts.f_type.cast_unsigned() & 0xffff_ffff)))
}

fn same_device(a: &File, b: &File) -> bool {
    matches!((fstat(a), fstat(b)), (Ok(a), Ok(b)) if a.st_dev == b.st_dev)
}

impl Extent {
    /// Has the kernel copy it; what it will not, goes through a buffer.
    pub(super) fn copy(
        &self,
        stored: &Stored<'_>,
        files: &[File],
        run: &Run,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let mut done = 0;
        if let Some((source, start)) = stored.in_file(self.storage) {
            while done < self.len {
                run.check_cancelled()?;
                let (mut from, mut to) = (start + self.from + done, self.to + done);
                let len = size(self.len - done).min(64 << 20);
                match copy_file_range(&*source, Some(&mut from), &files[self.file], Some(&mut to), len) {
                    Ok(copied) if copied > 0 => {
                        done += copied as u64;
                        run.count(copied as u64);
                    }
                    _ => break,
                }
            }
        }
        buffer.resize(WINDOW_BYTES, 0);
        while done < self.len {
            run.check_cancelled()?;
            let part = &mut buffer[..size(self.len - done).min(WINDOW_BYTES)];
            stored.read(self.storage, self.from + done, part)?;
            files[self.file].write_all_at(part, self.to + done)?;
            done += part.len() as u64;
            run.count(part.len() as u64);
        }
        Ok(())
    }
}
