//! A source that records reads into buffers that are longer than the file. Such a buffer was
//! allocated with an unchecked length.

use crate::{Entry, FileId, FileRange, MemorySource, Result, Source};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum length in bytes of a buffer that may be longer than the file, such as a fixed buffer on
/// the stack.
const SMALL: u64 = 64 << 10;

pub(super) struct BufferMonitor {
    source: MemorySource,
    too_long: AtomicBool,
}

impl BufferMonitor {
    pub(super) fn new(source: MemorySource) -> Self {
        Self { source, too_long: AtomicBool::new(false) }
    }

    /// Returns whether any read used a buffer longer than the file.
    pub(super) fn has_oversized_buffer(&self) -> bool {
        self.too_long.load(Ordering::Relaxed)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Source for BufferMonitor {
    fn entry(&self) -> &Entry {
        self.source.entry()
    }

    fn open(&self, name: &str) -> Result<FileId> {
        self.source.open(name)
    }

    fn contains(&self, name: &str) -> Result<bool> {
        self.source.contains(name)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.source.folders(folder)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.source.list(prefix)
    }

    fn name(&self, file: FileId) -> &str {
        self.source.name(file)
    }

    fn len(&self, file: FileId) -> u64 {
        self.source.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if buffer.len() as u64 > self.source.len(file).max(SMALL) {
            self.too_long.store(true, Ordering::Relaxed);
        }
        self.source.read_at(file, offset, buffer)
    }

    fn read_ranges(&self, ranges: &[FileRange], buffer: &mut [u8]) -> Result<()> {
        // Ranges may overlap, so the buffer may be longer than all files together, but no range may
        // be longer than its file.
        let is_long = |range: &FileRange| range.len > self.source.len(range.file).max(SMALL);
        if ranges.iter().any(is_long) {
            self.too_long.store(true, Ordering::Relaxed);
        }
        self.source.read_ranges(ranges, buffer)
    }

    fn advise(&self, ranges: &[FileRange]) {
        self.source.advise(ranges);
    }

    fn read_vec(&self, file: FileId, offset: u64, len: u64, limits: &crate::Limits) -> Result<Vec<u8>> {
        // `read_vec` checks the length itself before it allocates.
        self.source.read_vec(file, offset, len, limits)
    }
}
