//! The memory for decoding pages. All streams of an input share one budget.
//!
//! Half of the run's memory is for reading. An eighth of that half is for batches on their way to
//! the writer, and this module distributes the rest. The decoder of a leaf column needs:
//!
//! ```text
//! always              about 8 KiB of decoder state
//! from the dictionary decoded values: the size of the page, and 16 bytes more per byte array; the `parquet`
//!                     crate keeps them until the end of the chunk, even if no later page uses them
//! from a data page    its decompressed bytes, until the next page is ready; lengths in delta encoding
//!                     are decoded at once, and take 8 bytes per value
//! while a page loads  its compressed bytes in addition, unless the chunk is not compressed
//! ```
//!
//! Large pages are read in parts if possible, and take the memory of two parts.
//!
//! A stream usually decodes all columns at once, and counts each page before it is read. If the pages
//! of all columns do not fit, the stream decodes one group of columns after another, for a window of
//! rows. A wide table is also decoded in groups if its rows fit in one window. The pages of a column
//! that do not fit even then are an error.
//!
//! Streams that hold memory while the host consumes their batches never wait for each other. A
//! stream waits only for groups of columns that are being decoded now, which always finish.

use super::header::{PageHeader, PageKind};
use parquet::basic::{Compression, Type};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tensorferry_sdk::{Error, Limits, Result};

/// Estimated size of the decoder of a leaf column without its pages, in bytes.
const DECODER_STATE: u64 = 8 << 10;

/// The memory that the streams of an input share.
#[derive(Debug)]
pub(super) struct ReadMemory {
    /// Maximum number of bytes.
    total: u64,
    /// Maximum number of streams that the host reads at the same time.
    streams: u64,
    /// Number of groups of columns that a stream decodes at the same time.
    pub(super) threads: usize,
    used: Mutex<UsedMemory>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct UsedMemory {
    /// Bytes that streams hold between batches.
    held: u64,
    /// Bytes of the groups of columns that are being decoded.
    decoding: u64,
}

/// A part of the memory, which is released when the value is dropped.
#[derive(Debug)]
pub(super) struct ReservedMemory {
    memory: Arc<ReadMemory>,
    part: fn(&mut UsedMemory) -> &mut u64,
    bytes: u64,
}

impl ReadMemory {
    /// Distributes the memory over the streams that `threads` threads read from `splits` splits.
    pub(super) fn new(limits: &Limits, threads: usize, splits: usize) -> Self {
        let streams = threads.min(splits).max(1) as u64;
        let total = u64::try_from(u128::from(limits.memory_bytes) * 7 / 16).unwrap_or(u64::MAX);
        let threads = threads / threads.min(splits).max(1);
        Self { total, streams, threads: threads.max(1), used: Mutex::default(), released: Condvar::new() }
    }

    /// Reserves memory that a stream keeps between batches. Returns `None` if there is not enough.
    pub(super) fn hold(self: &Arc<Self>, bytes: u64) -> Option<ReservedMemory> {
        let mut held = ReservedMemory { memory: self.clone(), part: |used| &mut used.held, bytes: 0 };
        held.resize(bytes).then_some(held)
    }

    /// Returns a limit error if a column needs more memory than there is, even if nothing else is
    /// being decoded.
    pub(super) fn check(&self, bytes: u64) -> Result<()> {
        let max = self.max_decoding();
        if bytes > max {
            // The hint is exact, because the maximum is a fixed part of the run's memory.
            let run = u128::from(bytes) * u128::from(if self.streams == 1 { 1_u64 } else { 2 }) * 16 / 7;
            let mebibytes = run.div_ceil(1 << 20);
            return Err(Error::limit("the pages of a column do not fit in the memory for reading")
                .expected(format!("at most {max} bytes"))
                .found(format!("{bytes} bytes"))
                .hint(format!("pass --memory {mebibytes}MiB")));
        }
        Ok(())
    }

    /// Reserves memory for decoding a group of columns. Waits until other groups are decoded.
    /// Returns the error of [`check`](Self::check).
    pub(super) fn decode(self: &Arc<Self>, bytes: u64) -> Result<ReservedMemory> {
        self.check(bytes)?;
        let max = self.max_decoding();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // A single stream divides its memory between its window and the groups as it needs.
        let held = |used: &UsedMemory| if self.streams == 1 { used.held } else { 0 };
        while used.decoding > 0 && used.decoding + bytes + held(&used) > max {
            used = self.released.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        used.decoding += bytes;
        Ok(ReservedMemory { memory: self.clone(), part: |used| &mut used.decoding, bytes })
    }

    /// Returns the usual size of a window in bytes, if the largest group of columns needs `group`
    /// bytes.
    pub(super) fn window(&self, group: u64) -> u64 {
        let others = self.group() * (self.threads as u64 - 1);
        let rest = self.total.saturating_sub(group.saturating_add(others));
        if self.streams == 1 { rest } else { self.total / 2 / self.streams }
    }

    /// Returns the size of a group of columns in bytes. A group of one column may be larger. Small
    /// groups leave memory for large windows.
    pub(super) fn group(&self) -> u64 {
        self.total / 16 / self.streams
    }

    fn max_held(&self) -> u64 {
        if self.streams == 1 { self.total } else { self.total / 2 }
    }

    fn max_decoding(&self) -> u64 {
        if self.streams == 1 { self.total } else { self.total - self.total / 2 }
    }
}

impl ReservedMemory {
    /// Changes the number of reserved bytes that a stream holds. Returns `false` and changes
    /// nothing if there is not enough memory.
    fn resize(&mut self, bytes: u64) -> bool {
        let mut used = self.memory.used.lock().unwrap_or_else(PoisonError::into_inner);
        let part = (self.part)(&mut used);
        let sum = (*part - self.bytes).saturating_add(bytes);
        if bytes > self.bytes && sum > self.memory.max_held() {
            return false;
        }
        (*part, self.bytes) = (sum, bytes);
        true
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        let mut used = self.memory.used.lock().unwrap_or_else(PoisonError::into_inner);
        *(self.part)(&mut used) -= self.bytes;
        self.memory.released.notify_all();
    }
}

/// The memory of a leaf column's decoder.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecoderMemory {
    compression: Compression,
    physical: Type,
    /// Decoded values of the dictionary.
    dictionary: u64,
    /// The current data page.
    page: u64,
}

impl DecoderMemory {
    pub(super) fn new(compression: Compression, physical: Type) -> Self {
        Self { compression, physical, dictionary: 0, page: 0 }
    }

    /// Returns the number of bytes between pages.
    pub(super) fn bytes(&self) -> u64 {
        DECODER_STATE.saturating_add(self.dictionary).saturating_add(self.page)
    }

    /// Replaces the current page. Returns the maximum number of bytes until the page is decoded.
    pub(super) fn load(&mut self, header: &PageHeader) -> u64 {
        let PageHeader { kind, uncompressed, compressed, .. } = *header;
        let values = u64::from(header.values);
        let compressed = if self.compression == Compression::UNCOMPRESSED { 0 } else { compressed };
        let before = self.bytes();
        let (decoded, transient) = match kind {
            PageKind::Other => return before,
            PageKind::Dictionary => {
                self.dictionary = match self.physical {
                    Type::BYTE_ARRAY => uncompressed.saturating_add(values.saturating_mul(16)),
                    // The `parquet` crate stores the 12 bytes of a value in 16 bytes.
                    Type::INT96 => uncompressed.saturating_mul(2),
                    _ => uncompressed,
                };
                (self.dictionary, uncompressed)
            }
            PageKind::Data { .. } | PageKind::DataV2 { .. } => {
                let lengths = if header.is_delta() { values.saturating_mul(8) } else { 0 };
                self.page = uncompressed.saturating_add(lengths);
                (self.page, 0)
            }
        };
        before
            .saturating_add(transient)
            .saturating_add(decoded.max(compressed.saturating_add(uncompressed - transient)))
    }
}

/// The memory that a leaf column's decoder holds between batches.
#[derive(Debug)]
pub(super) struct HeldDecoder {
    decoder: DecoderMemory,
    reserved: ReservedMemory,
}

impl HeldDecoder {
    /// Reserves the memory of a decoder without pages. Returns `None` if there is not enough.
    pub(super) fn new(memory: &Arc<ReadMemory>, decoder: DecoderMemory) -> Option<Self> {
        Some(Self { decoder, reserved: memory.hold(decoder.bytes())? })
    }

    /// Reserves the memory for the next page. Returns `false` if there is not enough.
    pub(super) fn load(&mut self, header: &PageHeader) -> bool {
        let peak = self.decoder.load(header);
        self.reserved.resize(peak)
    }

    /// Releases the memory that was only needed to load the current page.
    pub(super) fn loaded(&mut self) {
        self.reserved.resize(self.decoder.bytes());
    }
}
