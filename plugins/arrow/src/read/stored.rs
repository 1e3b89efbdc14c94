//! A buffer of a record batch, of which ranges are read.

use super::claims;
use super::decoders::{Decoder, DecoderCache, DecoderKey, FRAME_HEADER, FrameReader, memory};
use super::message::SourceFile;
use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, ScalarBuffer};
use arrow_ipc::CompressionType;
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::{Error, Result};

/// Maximum number of times that a compressed buffer is decoded, if its values are not needed in
/// order, or if its decoder does not fit in memory.
const MAX_PASSES: u64 = 256;
/// Buffers up to this length count as this length.
const SHORT: u64 = 64 << 10;
/// Number of bytes at the beginning of a compressed buffer to read first: its length after
/// decompression, and the beginning of its frame.
const HEAD: usize = 8 + FRAME_HEADER;

pub(super) struct StoredBuffer {
    file: SourceFile,
    /// Range of the file that contains the bytes, or the frame.
    place: Range<u64>,
    /// Number of bytes after decompression.
    len: u64,
    frame: Option<Frame>,
    /// The last bytes that were read, and their offset. Slices of rows overlap by a value, and
    /// offsets are read before the data is measured.
    block: (u64, Buffer),
    /// Minimum length of a block.
    ahead: u64,
}

struct Frame {
    codec: CompressionType,
    decoders: Arc<DecoderCache>,
    key: DecoderKey,
    memory: u64,
    /// Number of bytes decoded so far.
    decoded: u64,
}

impl StoredBuffer {
    /// Creates a buffer without compression.
    pub(super) fn new(file: &SourceFile, place: Range<u64>) -> Self {
        let len = place.end - place.start;
        Self { file: file.clone(), place, len, frame: None, block: Default::default(), ahead: 0 }
    }

    /// Reads the lengths of compressed buffers. `key` is the key of the first buffer.
    pub(super) fn open_frames(
        buffers: &mut [&mut Self],
        codec: CompressionType,
        decoders: &Arc<DecoderCache>,
        key: DecoderKey,
    ) -> Result<()> {
        let Some(file) = buffers.first().map(|buffer| buffer.file.clone()) else { return Ok(()) };
        let heads = buffers.iter().map(|buffer| (buffer.place.start, buffer.len.min(HEAD as u64)));
        let heads = file.read_ranges(&heads.collect::<Vec<_>>())?;
        for (number, (buffer, head)) in buffers.iter_mut().zip(heads).enumerate() {
            if head.is_empty() {
                continue;
            }
            let stored = buffer.len;
            let (len, is_compressed) = claims::claimed(codec, &head, stored)?;
            (buffer.place.start, buffer.len) = (buffer.place.start + 8, len);
            if is_compressed && len > 0 {
                let memory = memory(codec, head.get(8..).unwrap_or_default(), len);
                let key = (key.0, key.1, key.2, number);
                buffer.frame = Some(Frame { codec, decoders: decoders.clone(), key, memory, decoded: 0 });
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn set_ahead(&mut self, ahead: u64) {
        self.ahead = ahead;
    }

    /// Returns `len` bytes, starting at `start`. Reading in ascending order is fast.
    pub(super) fn read(&mut self, start: u64, len: u64) -> Result<Buffer> {
        let end = start.checked_add(len).filter(|end| *end <= self.len).ok_or_else(|| {
            Error::malformed("a buffer is shorter than its values")
                .expected(format!("{len} bytes at {start}"))
                .found(format!("{} bytes", self.len))
        })?;
        if len == 0 {
            return Ok(Buffer::from([]));
        }
        let known = self.block.0..self.block.0 + self.block.1.len() as u64;
        if start < known.start || end > known.end {
            let size = len.max(self.ahead).min(self.len - start);
            let mut bytes = MutableBuffer::from_len_zeroed(size_of(size)?);
            let (at, block) = std::mem::take(&mut self.block);
            let copied = if known.contains(&start) { &block[size_of(start - at)?..] } else { &[] };
            bytes[..copied.len()].copy_from_slice(copied);
            let copied = copied.len();
            drop(block);
            self.fetch(start + copied as u64, &mut bytes[copied..])?;
            self.block = (start, bytes.into());
        }
        Ok(self.block.1.slice_with_length(size_of(start - self.block.0)?, size_of(len)?))
    }

    /// Returns `len` numbers, starting with number `start`.
    pub(super) fn numbers<N: ArrowNativeType>(&mut self, start: u64, len: u64) -> Result<ScalarBuffer<N>> {
        let width = std::mem::size_of::<N>() as u64;
        let bytes = self.read(start.saturating_mul(width), len.saturating_mul(width))?;
        // Blocks are aligned, and start at a number.
        Ok(ScalarBuffer::new(bytes, 0, size_of(len)?))
    }

    fn fetch(&mut self, start: u64, bytes: &mut [u8]) -> Result<()> {
        let Some(frame) = &mut self.frame else { return self.file.read_at(self.place.start + start, bytes) };
        let end = start + bytes.len() as u64;
        let kept = frame.decoders.take(&frame.key).filter(|decoder| decoder.position <= start);
        let mut decoder = match kept {
            Some(kept) => kept,
            None => {
                frame.decoders.check(frame.memory)?;
                let Range { start: offset, end } = self.place;
                let reader = FrameReader { file: self.file.clone(), offset, end };
                Decoder::new(reader, frame.codec, frame.memory)?
            }
        };
        frame.decoded = frame.decoded.saturating_add(end - decoder.position);
        if frame.decoded / MAX_PASSES > self.len.max(SHORT) {
            return Err(Error::limit("a compressed buffer would be decompressed too often")
                .hint("pass --memory N to keep more of the buffers in memory")
                .expected(format!("at most {MAX_PASSES} times")));
        }
        decoder.skip_to(start)?;
        decoder.read(bytes)?;
        if end == self.len {
            return decoder.check_end();
        }
        frame.decoders.keep(frame.key, decoder);
        Ok(())
    }
}

fn size_of(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| Error::limit("too long for the address space"))
}
