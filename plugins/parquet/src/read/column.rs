//! Provides the `parquet` crate with the bytes of one column in one row group. The `parquet` crate
//! cannot read outside the column's chunk. Pages that claim impossible sizes are rejected.

use super::file::SourceFile;
use super::header::{self, PageHeader, PageKind};
use super::memory::{DecoderMemory, HeldDecoder};
use super::old_writer::OldWriter;
use super::thrift;
use crate::fault::FirstError;
use bytes::Bytes;
use parquet::basic::{Compression, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::{Error, Result};

/// Number of bytes to read at a time when parsing a header. Most headers are shorter.
const HEADER_READ: usize = 1 << 10;

#[derive(Debug, Clone)]
pub(super) struct ColumnChunk {
    file: SourceFile,
    first_error: FirstError,
    /// Column path, for error messages.
    path: String,
    start: u64,
    end: u64,
    compression: Compression,
    /// Whether version 2 pages are compressed regardless of their headers.
    is_always_compressed: bool,
    physical: Type,
    /// Maximum number of values in a page if the column does not contain lists.
    rows: Option<u64>,
    /// Number of values that the footer claims.
    values: u64,
    /// Maximum size of a decompressed page, in bytes.
    max: u64,
    state: Arc<Mutex<ChunkState>>,
    /// Set if the memory that the stream may hold does not suffice for a page.
    is_out_of_memory: Arc<AtomicBool>,
}

/// What a chunk remembers between the calls of the `parquet` crate.
#[derive(Debug, Default)]
struct ChunkState {
    /// The last parsed header, and the offset of the page body after it.
    header: Option<(u64, PageHeader)>,
    /// The same of a dictionary that was skipped, which the `parquet` crate may read later.
    dictionary: Option<(u64, PageHeader)>,
    /// The memory of the column's decoder, if it is counted.
    held: Option<HeldDecoder>,
}

impl ChunkState {
    /// Removes and returns the header of the page body at an offset.
    fn take_header(&mut self, body: u64) -> Option<PageHeader> {
        let is_of_body = |header: &mut (u64, PageHeader)| header.0 == body;
        let header = self.header.take_if(is_of_body).or_else(|| self.dictionary.take_if(is_of_body));
        header.map(|(_, header)| header)
    }
}

impl ColumnChunk {
    /// Opens column `index` of a row group whose footer has been checked.
    pub(super) fn new(
        file: &SourceFile,
        group: &RowGroupMetaData,
        index: usize,
        max: u64,
        writer: OldWriter,
        first_error: &FirstError,
        is_out_of_memory: &Arc<AtomicBool>,
    ) -> Self {
        let column = group.column(index);
        let (start, len) = column.byte_range();
        let len = writer.chunk_len(start, len, file.len());
        let is_flat = column.column_descr().max_rep_level() == 0;
        Self {
            file: file.clone(),
            first_error: first_error.clone(),
            path: column.column_path().string(),
            start,
            end: start + len,
            compression: column.compression(),
            is_always_compressed: writer == OldWriter::Cpp,
            physical: column.column_type(),
            rows: u64::try_from(group.num_rows()).ok().filter(|_| is_flat),
            values: u64::try_from(column.num_values()).unwrap_or(0),
            max,
            state: Arc::default(),
            is_out_of_memory: is_out_of_memory.clone(),
        }
    }

    /// Adds the column path to an error.
    pub(super) fn named(&self, error: Error) -> Error {
        error.column(&self.path)
    }

    /// Keeps an error, and returns it as a `parquet` crate error.
    pub(super) fn fail(&self, error: Error) -> ParquetError {
        self.first_error.keep(self.named(error))
    }

    fn state(&self) -> MutexGuard<'_, ChunkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error for a page that does not fit in the memory that the stream may hold. The
    /// stream then decodes the columns in groups.
    pub(super) fn out_of_memory(&self) -> ParquetError {
        self.is_out_of_memory.store(true, Ordering::Relaxed);
        ParquetError::General("the pages of all columns do not fit in memory".to_owned())
    }

    /// Counts the memory of the column's decoder.
    pub(super) fn count(&self, held: HeldDecoder) {
        self.state().held = Some(held);
    }

    /// Returns the memory of a decoder without pages.
    pub(super) fn decoder_memory(&self) -> DecoderMemory {
        DecoderMemory::new(self.compression, self.physical)
    }

    /// Ends the loading of a page, which is now decompressed.
    pub(super) fn loaded(&self) {
        if let Some(held) = &mut self.state().held {
            held.loaded();
        }
    }

    /// Forgets the header of a page that was skipped, unless it is a dictionary.
    pub(super) fn skipped(&self) {
        let mut state = self.state();
        let dictionary = state.header.take().filter(|(_, header)| header.kind == PageKind::Dictionary);
        state.dictionary = dictionary.or(state.dictionary.take());
    }

    /// Returns the maximum number of bytes that the column's decoder needs. Reads the headers of
    /// all pages.
    pub(super) fn max_memory(&self) -> Result<u64> {
        let mut decoder = self.decoder_memory();
        let (mut at, mut max) = (self.start, decoder.bytes());
        let (mut dictionary, mut page, mut values) = (0, 0, 0_u64);
        while at < self.end {
            let mut bytes = ChunkBytes { chunk: self.clone(), at, buffer: Bytes::new() };
            let header = header::page_header(&mut bytes).map_err(|error| error.offset(at));
            let header = match header.and_then(|header| self.check_header(at, header).map(|()| header)) {
                // Some writers leave other bytes behind the last page.
                Err(_) if values >= self.values => break,
                header => header?,
            };
            let loading = decoder.load(&header);
            max = max.max(loading);
            match header.kind {
                PageKind::Dictionary => dictionary = loading,
                PageKind::Data => {
                    page = page.max(header.uncompressed);
                    values = values.saturating_add(header.values);
                }
                PageKind::Other => {}
            }
            at = bytes.at.saturating_add(header.compressed);
        }
        // A dictionary that was skipped is read after the first page that needs it.
        Ok(if dictionary > 0 { max.max(dictionary.saturating_add(page)) } else { max })
    }

    /// Returns the number of bytes that are needed to load only the first page.
    pub(super) fn memory_of_first_page(&self) -> u64 {
        let header = self.state().header;
        header.map_or(0, |(_, header)| self.decoder_memory().load(&header))
    }

    /// Decompresses a page to measure its length, if the `parquet` crate would decompress more
    /// bytes than the header claims.
    fn check_length(&self, at: u64, header: PageHeader, bytes: &Bytes) -> Result<()> {
        if !ignores_claimed_length(self.compression, header.compressed, self.max) {
            return Ok(());
        }
        let levels = usize::try_from(header.levels).unwrap_or(usize::MAX);
        let compressed = bytes.get(levels..).unwrap_or_default();
        let claimed = header.uncompressed.saturating_sub(header.levels);
        let text: Box<dyn Read + '_> = match self.compression {
            Compression::GZIP(_) => Box::new(flate2::read::MultiGzDecoder::new(compressed)),
            _ => Box::new(brotli::Decompressor::new(compressed, HEADER_READ)),
        };
        // If the bytes cannot be decompressed, the `parquet` crate reports the error.
        match io::copy(&mut text.take(claimed.saturating_add(1)), &mut io::sink()) {
            Ok(len) if len > claimed => Err(Error::malformed("the page is longer than its header claims")
                .offset(at)
                .expected(format!("{claimed} bytes"))),
            _ => Ok(()),
        }
    }

    fn check_header(&self, at: u64, header: PageHeader) -> Result<()> {
        let PageHeader { kind, uncompressed, compressed, values, .. } = header;
        if kind == PageKind::Other {
            return Ok(());
        }
        let claim = |expected: String, found: u64| {
            Error::malformed("the page header claims too much").offset(at).expected(expected).found(found)
        };
        if uncompressed > self.max {
            return Err(Error::limit("the decompressed page is too long")
                .offset(at)
                .expected(format!("at most {} bytes", self.max))
                .found(uncompressed));
        }
        if let Some(ratio) = highest_ratio(self.compression)
            && uncompressed > compressed.saturating_mul(ratio).saturating_add(64)
        {
            let max = compressed.saturating_mul(ratio).saturating_add(64);
            return Err(claim(
                format!("at most {max} bytes from {compressed} compressed bytes"),
                uncompressed,
            ));
        }
        match kind {
            PageKind::Dictionary => {
                let width = match self.physical {
                    Type::INT64 | Type::DOUBLE => 8,
                    Type::INT96 => 12,
                    Type::FIXED_LEN_BYTE_ARRAY | Type::BOOLEAN => 1,
                    // A byte array has a length prefix.
                    Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
                };
                if values > uncompressed / width {
                    return Err(claim(format!("at most {} values", uncompressed / width), values));
                }
            }
            _ => {
                if let Some(rows) = self.rows
                    && values > rows
                {
                    return Err(claim(format!("at most {rows} values, one per row"), values));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the `parquet` crate decompresses a page to its end instead of stopping at the
/// length that the page claims.
fn ignores_claimed_length(compression: Compression, compressed: u64, max: u64) -> bool {
    match compression {
        Compression::GZIP(_) => compressed.saturating_mul(1032) > max,
        Compression::BROTLI(_) => true,
        _ => false,
    }
}

/// Returns the maximum compression ratio of a codec, or `None` if it has no limit.
fn highest_ratio(compression: Compression) -> Option<u64> {
    match compression {
        Compression::UNCOMPRESSED => Some(1),
        // In Snappy, a copy element of three bytes produces up to 64 bytes.
        Compression::SNAPPY => Some(22),
        Compression::GZIP(_) => Some(1032),
        // In LZ4, each length byte adds up to 255 bytes.
        Compression::LZ4 | Compression::LZ4_RAW => Some(255),
        Compression::ZSTD(_) | Compression::BROTLI(_) | Compression::LZO => None,
    }
}

impl Length for ColumnChunk {
    fn len(&self) -> u64 {
        self.end
    }
}

impl ChunkReader for ColumnChunk {
    type T = ChunkBytes;

    /// The `parquet` crate calls this function at the start of a page header. After parsing and
    /// keeping the header, the library calls it again at the end of the header.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut reader = ChunkBytes { chunk: self.clone(), at: start, buffer: Bytes::new() };
        let is_behind = |&(page, _): &(u64, PageHeader)| page == start;
        if self.state().header.as_ref().is_some_and(is_behind) {
            return Ok(reader);
        }
        let result = reader.fill().and_then(|()| {
            let mut behind = reader.clone();
            let header = header::page_header(&mut behind).map_err(|error| error.offset(start))?;
            self.check_header(start, header)?;
            let kept = (header.kind != PageKind::Other).then_some((behind.at, header));
            self.state().header = kept;
            Ok(header.uncompressed_flag.filter(|_| self.is_always_compressed))
        });
        let flag = result.map_err(|error| self.fail(error))?;
        let flagged = flag.map_or(Ok(()), |at| reader.set_compressed(at));
        flagged.map_err(|error| self.fail(error))?;
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let inside =
            start >= self.start && start.checked_add(length as u64).is_some_and(|end| end <= self.end);
        let read = if inside {
            let mut state = self.state();
            let header = state.take_header(start);
            if let (Some(header), Some(held)) = (header, &mut state.held)
                && !held.load(&header)
            {
                return Err(self.out_of_memory());
            }
            drop(state);
            self.file.read(start, length as u64).and_then(|bytes| {
                header.map_or(Ok(()), |header| self.check_length(start, header, &bytes))?;
                Ok(bytes)
            })
        } else {
            Err(Error::malformed("a page is outside its column chunk").offset(start))
        };
        read.map_err(|error| self.fail(error))
    }
}

/// The bytes of a chunk, starting at a given position.
#[derive(Debug, Clone)]
pub(super) struct ChunkBytes {
    chunk: ColumnChunk,
    /// File position of the next bytes to read into the buffer.
    at: u64,
    buffer: Bytes,
}

impl ChunkBytes {
    /// Reads more bytes if the buffer is empty. At the end of the chunk, the buffer remains empty.
    fn fill(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            let len = self.chunk.end.saturating_sub(self.at).min(HEADER_READ as u64);
            self.buffer = self.chunk.file.read(self.at, len)?;
        }
        Ok(())
    }

    /// Changes the flag at offset `at` of the header from "not compressed" to "compressed".
    fn set_compressed(&mut self, at: u64) -> Result<()> {
        let mut bytes = self.buffer.to_vec();
        // The flag is a field header, which consists of four bits of ID and four bits of type. Type
        // 1 means true, and type 2 means false.
        let field = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)).filter(|field| **field == 0x12);
        let field = field.ok_or_else(|| {
            Error::unsupported(
                "a page header contradicts the page's compression, as in files written by Arrow before 3.0",
            )
        })?;
        *field = 0x11;
        self.buffer = bytes.into();
        Ok(())
    }

    fn advance(&mut self, count: usize) {
        self.buffer = self.buffer.split_off(count);
        self.at += count as u64;
    }
}

impl thrift::Bytes for ChunkBytes {
    fn byte(&mut self) -> Result<u8> {
        self.fill()?;
        let byte = self.buffer.first().copied();
        let byte = byte.ok_or_else(|| Error::malformed("the chunk ends inside a page header"))?;
        self.advance(1);
        Ok(byte)
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        match usize::try_from(count) {
            Ok(count) if count <= self.buffer.len() => self.advance(count),
            _ => {
                let to = self.at.checked_add(count).filter(|&to| to <= self.chunk.end);
                self.at = to.ok_or_else(|| Error::malformed("the chunk ends inside a page header"))?;
                self.buffer = Bytes::new();
            }
        }
        Ok(())
    }
}

impl Read for ChunkBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill().map_err(|error| io::Error::other(self.chunk.fail(error)))?;
        let count = buffer.len().min(self.buffer.len());
        buffer[..count].copy_from_slice(&self.buffer[..count]);
        self.advance(count);
        Ok(count)
    }
}
