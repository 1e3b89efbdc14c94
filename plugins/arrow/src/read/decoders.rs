//! The decoders of compressed buffers that are larger than a slice of rows. A frame can be decoded
//! only from its beginning, so a decoder that is kept avoids decoding the same bytes again.

use super::message::SourceFile;
use crate::fault::one_line;
use arrow_ipc::CompressionType;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tensorferry_sdk::{Error, Limits, Result};

/// Number of compressed bytes that a decoder reads at a time.
const READ: usize = 128 << 10;
/// Approximate memory of a decoder, without its window.
const DECODER: u64 = 384 << 10;
/// Maximum base-2 logarithm of the size of a Zstandard window.
const MAX_WINDOW_LOG: u32 = 31;
/// Size of the blocks in old LZ4 frames.
const OLD_BLOCK: u64 = 8 << 20;
const ZSTD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
const LZ4_MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
/// Number of bytes at the beginning of a frame that tell how much memory the frame needs.
pub(super) const FRAME_HEADER: usize = 6;

/// Identifies a buffer: number of the split, offset of the batch, number of the stream that reads
/// it, and number of the buffer in the batch.
pub(super) type DecoderKey = (usize, u64, u64, usize);

/// The decoders of all streams of an input, within a part of the memory budget. If they exceed it,
/// the decoders of the last splits are dropped first, because the rows of these splits are needed
/// last.
pub(super) struct DecoderCache {
    /// Maximum memory of all decoders, and of a single decoder.
    max: u64,
    max_single: u64,
    /// Number of bytes that each stream may read ahead.
    pub(super) ahead: u64,
    streams: AtomicU64,
    kept: Mutex<BTreeMap<DecoderKey, Decoder>>,
}

impl DecoderCache {
    /// Divides the memory budget. Half of the budget is for reading. Of this half, three quarters
    /// are for decoders, and the rest is for the slices of `streams` streams. Each slice exists
    /// twice: once in the stream, and once in the batches that are being written.
    pub(super) fn new(limits: &Limits, streams: usize) -> Self {
        let memory = limits.memory_bytes;
        Self {
            max: memory / 8 * 3,
            max_single: (memory / 2).max(OLD_BLOCK * 4),
            ahead: memory / 16 / streams.max(1) as u64,
            streams: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    /// Returns a number for a stream, for its keys.
    pub(super) fn stream(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the decoder of a buffer, if it was kept.
    pub(super) fn take(&self, key: &DecoderKey) -> Option<Decoder> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    /// Keeps a decoder if the decoders of earlier buffers leave enough memory.
    pub(super) fn keep(&self, key: DecoderKey, decoder: Decoder) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(key, decoder);
        let mut all: u64 = kept.values().map(|decoder| decoder.memory).sum();
        while all > self.max {
            let Some((_, last)) = kept.pop_last() else { return };
            all -= last.memory;
        }
    }

    /// Drops the decoders of a stream.
    pub(super) fn end(&self, (split, batch, stream, _): DecoderKey) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|key, _| (key.0, key.1, key.2) != (split, batch, stream));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Checks that a decoder that takes this much memory fits in the budget.
    pub(super) fn check(&self, memory: u64) -> Result<()> {
        if memory <= self.max_single {
            return Ok(());
        }
        Err(Error::limit("a compressed buffer takes too much memory to decompress")
            .hint(format!("pass --memory {}MiB to allow more", memory.div_ceil(1 << 19)))
            .expected(format!("at most {} bytes", self.max_single))
            .found(memory))
    }
}

/// A decoder of a frame, and the number of bytes that it has decoded.
pub(super) struct Decoder {
    reader: Box<dyn Read + Send>,
    pub(super) position: u64,
    memory: u64,
}

impl Decoder {
    /// Creates a decoder of the frame that takes up the range of a file. `memory` is the result of
    /// [`memory`].
    pub(super) fn new(frame: FrameReader, codec: CompressionType, memory: u64) -> Result<Self> {
        let frame = BufReader::with_capacity(READ, frame);
        let reader: Box<dyn Read + Send> = match codec {
            CompressionType::LZ4_FRAME => Box::new(lz4_flex::frame::FrameDecoder::new(frame)),
            CompressionType::ZSTD => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(failed)?;
                let log = memory.next_power_of_two().ilog2();
                decoder.window_log_max(log.min(MAX_WINDOW_LOG)).map_err(failed)?;
                Box::new(decoder)
            }
            other => {
                return Err(Error::unsupported("unknown compression codec").found(format!("{other:?}")));
            }
        };
        Ok(Self { reader, position: 0, memory })
    }

    /// Decodes bytes up to a position, and drops them.
    pub(super) fn skip_to(&mut self, position: u64) -> Result<()> {
        let left = |at: u64| usize::try_from(position.saturating_sub(at)).unwrap_or(usize::MAX).min(READ);
        let mut dropped = vec![0; left(self.position)];
        while self.position < position {
            let len = left(self.position);
            self.read(&mut dropped[..len])?;
        }
        Ok(())
    }

    /// Decodes the next bytes, and fills the buffer.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.reader.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => too_short(),
            _ => failed(error),
        })?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    /// Checks that the frame contains no more bytes.
    pub(super) fn check_end(mut self) -> Result<()> {
        match self.reader.read(&mut [0]).map_err(failed)? {
            0 => Ok(()),
            _ => Err(Error::malformed("a compressed buffer contains more bytes than it claims")
                .expected(format!("{} bytes", self.position))),
        }
    }
}

fn too_short() -> Error {
    Error::malformed("a compressed buffer contains fewer bytes than it claims")
}

fn failed(error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => own,
        Err(other) => {
            Error::malformed(format!("a compressed buffer is damaged: {}", one_line(&other.to_string())))
        }
    }
}

/// Reads a range of a file.
pub(super) struct FrameReader {
    pub(super) file: SourceFile,
    pub(super) offset: u64,
    pub(super) end: u64,
}

impl Read for FrameReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        self.file.read_at(self.offset, &mut buffer[..len]).map_err(io::Error::other)?;
        self.offset += len as u64;
        Ok(len)
    }
}

/// Returns the approximate memory of a decoder for a frame that starts with `header` and contains
/// `len` bytes.
pub(super) fn memory(codec: CompressionType, header: &[u8], len: u64) -> u64 {
    let (magic, descriptors) = header.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    let first = descriptors.first().copied().unwrap_or(0);
    let second = u64::from(descriptors.get(1).copied().unwrap_or(0));
    let window = if codec == CompressionType::LZ4_FRAME {
        let block = match (*magic, second >> 4 & 7) {
            (LZ4_MAGIC, size @ 4..=7) => 1 << (8 + 2 * size),
            _ => OLD_BLOCK,
        };
        // A block before decompression, two blocks after it, and 64 KiB of history.
        3 * block + (64 << 10)
    } else if *magic != ZSTD_MAGIC || first & 0x20 != 0 {
        // In a frame of a single segment, the window contains all bytes.
        len
    } else {
        let base = 1_u64 << (10 + (second >> 3));
        base + base / 8 * (second & 7)
    };
    DECODER + window
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_tells_how_much_memory_it_needs() {
        let zstd = |descriptor: u8, window: u8| [&ZSTD_MAGIC[..], &[descriptor, window]].concat();
        let lz4 = |block: u8| [&LZ4_MAGIC[..], &[0x60, block << 4]].concat();
        for (codec, header, len, expected) in [
            (CompressionType::ZSTD, zstd(0, 11 << 3), 1 << 30, 2 << 20),
            (CompressionType::ZSTD, zstd(0, 11 << 3 | 4), 1 << 30, 3 << 20),
            (CompressionType::ZSTD, zstd(0x20, 0), 1 << 20, 1 << 20),
            (CompressionType::LZ4_FRAME, lz4(4), 1 << 30, (3 << 16) + (64 << 10)),
            (CompressionType::LZ4_FRAME, lz4(7), 1 << 30, (12 << 20) + (64 << 10)),
        ] {
            assert_eq!(memory(codec, &header, len) - DECODER, expected, "{header:?}");
        }
    }
}
