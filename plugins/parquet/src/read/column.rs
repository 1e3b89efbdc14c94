//! The bytes of one column in one row group, and the headers of the column's pages. Pages that claim
//! impossible sizes are rejected.

use super::codec;
use super::file::SourceFile;
use super::header::{self, PageHeader, PageKind};
use super::memory::DecoderMemory;
use super::old_writer::OldWriter;
use super::thrift;
use bytes::Bytes;
use parquet::basic::{Compression, Type};
use parquet::column::page::Page;
use parquet::file::metadata::RowGroupMetaData;
use parquet::schema::types::ColumnDescPtr;
use std::io::{self, Read};
use tensorferry_sdk::{Error, Result};

/// Number of bytes to read at a time when parsing a header. Most headers are shorter.
const HEADER_READ: u64 = 1 << 10;

/// A column's bytes in one row group, and a position in them.
#[derive(Debug, Clone)]
pub(super) struct ColumnChunk {
    file: SourceFile,
    /// Column path, for error messages.
    path: String,
    /// File position of the next bytes.
    at: u64,
    end: u64,
    /// The bytes from `at` onward that have been read.
    buffer: Bytes,
    pub(super) compression: Compression,
    /// Whether version 2 pages are compressed regardless of their headers.
    is_always_compressed: bool,
    pub(super) descriptor: ColumnDescPtr,
    /// Maximum number of values in a page if the column does not contain lists.
    rows: Option<u64>,
    /// Number of values that the footer claims.
    pub(super) values: u64,
    /// Maximum size of a decompressed page, in bytes.
    max: u64,
}

/// A page whose bytes have not been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocatedPage {
    pub(super) header: PageHeader,
    /// File position of the bytes after the header.
    body: u64,
}

impl LocatedPage {
    /// Returns a page with these decompressed bytes.
    pub(super) fn page(&self, buf: Bytes) -> Page {
        let PageHeader { kind, values: num_values, encoding, .. } = self.header;
        match kind {
            PageKind::DataV2 { nulls, rows, definition, repetition, is_compressed } => Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: nulls,
                num_rows: rows,
                def_levels_byte_len: definition,
                rep_levels_byte_len: repetition,
                is_compressed,
                statistics: None,
            },
            PageKind::Data { definition, repetition } => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: definition,
                rep_level_encoding: repetition,
                statistics: None,
            },
            PageKind::Dictionary | PageKind::Other => {
                Page::DictionaryPage { buf, num_values, encoding, is_sorted: false }
            }
        }
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
    ) -> Self {
        let column = group.column(index);
        let (start, len) = column.byte_range();
        let len = writer.chunk_len(start, len, file.len());
        let is_flat = column.column_descr().max_rep_level() == 0;
        Self {
            file: file.clone(),
            path: column.column_path().string(),
            at: start,
            end: start + len,
            buffer: Bytes::new(),
            compression: column.compression(),
            is_always_compressed: writer == OldWriter::Cpp,
            descriptor: column.column_descr_ptr(),
            rows: u64::try_from(group.num_rows()).ok().filter(|_| is_flat),
            values: u64::try_from(column.num_values()).unwrap_or(0),
            max,
        }
    }

    /// Adds the column path to an error.
    pub(super) fn named(&self, error: Error) -> Error {
        error.column(&self.path)
    }

    /// Returns the memory of a decoder without pages.
    pub(super) fn decoder_memory(&self) -> DecoderMemory {
        DecoderMemory::new(self.compression, self.descriptor.physical_type())
    }

    /// Parses the next header. Skips pages without values. Returns `None` at the end of the chunk.
    pub(super) fn next_page(&mut self) -> Result<Option<LocatedPage>> {
        while self.at < self.end {
            let start = self.at;
            let mut header = header::page_header(self).map_err(|error| error.offset(start))?;
            self.check_header(start, header)?;
            if let PageKind::DataV2 { is_compressed, .. } = &mut header.kind {
                *is_compressed |= self.is_always_compressed;
            }
            let page = LocatedPage { header, body: self.at };
            if header.compressed > self.end - self.at {
                return Err(Error::malformed("a page extends beyond its column chunk")
                    .offset(start)
                    .expected(format!("at most {} bytes", self.end - self.at))
                    .found(header.compressed));
            }
            if header.kind != PageKind::Other {
                return Ok(Some(page));
            }
            self.move_behind(&page);
        }
        Ok(None)
    }

    /// Moves to the header after a page, which must not be before the position.
    pub(super) fn move_behind(&mut self, page: &LocatedPage) {
        let to = page.body + page.header.compressed;
        let passed = usize::try_from(to - self.at).unwrap_or(usize::MAX).min(self.buffer.len());
        self.buffer = self.buffer.split_off(passed);
        self.at = to;
    }

    /// Reads and decompresses the bytes of a page.
    pub(super) fn read(&self, page: &LocatedPage) -> Result<Bytes> {
        let LocatedPage { header, body } = *page;
        let len = usize::try_from(header.compressed).map_err(|_| too_long())?;
        // The beginning of the page was read together with its header.
        let known = if body == self.at { &self.buffer[..len.min(self.buffer.len())] } else { &[] };
        let read = |bytes: &mut [u8]| {
            bytes[..known.len()].copy_from_slice(known);
            self.file.read_at(body + known.len() as u64, &mut bytes[known.len()..])
        };
        let is_compressed = match header.kind {
            PageKind::DataV2 { is_compressed, .. } => is_compressed,
            _ => true,
        };
        let stored = if self.compression == Compression::UNCOMPRESSED || !is_compressed {
            let mut bytes = vec![0; len];
            read(&mut bytes)?;
            check_crc(&header, &bytes)?;
            Ok(bytes)
        } else {
            codec::with_compressed(len, |bytes| {
                read(bytes)?;
                check_crc(&header, bytes)?;
                let levels = usize::try_from(header.levels()).map_err(|_| too_long())?;
                let uncompressed = usize::try_from(header.uncompressed).map_err(|_| too_long())?;
                codec::decompress(self.compression, bytes, levels, uncompressed)
            })
        };
        stored.map(Bytes::from).map_err(|error| error.offset(body))
    }

    /// Returns the bytes of a page.
    pub(super) fn range(&self, page: &LocatedPage) -> ChunkRange {
        ChunkRange { file: self.file.clone(), at: page.body, end: page.body + page.header.compressed }
    }

    fn check_header(&self, at: u64, header: PageHeader) -> Result<()> {
        let PageHeader { kind, uncompressed, compressed, .. } = header;
        let values = u64::from(header.values);
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
                let width = match self.descriptor.physical_type() {
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

    /// Reads more bytes if the buffer is empty. At the end of the chunk, the buffer remains empty.
    fn fill(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            let len = self.end.saturating_sub(self.at).min(HEADER_READ);
            self.buffer = self.file.read(self.at, len)?;
        }
        Ok(())
    }

    fn advance(&mut self, count: usize) {
        self.buffer = self.buffer.split_off(count);
        self.at += count as u64;
    }
}

impl thrift::Bytes for ColumnChunk {
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
                let to = self.at.checked_add(count).filter(|&to| to <= self.end);
                self.at = to.ok_or_else(|| Error::malformed("the chunk ends inside a page header"))?;
                self.buffer = Bytes::new();
            }
        }
        Ok(())
    }
}

/// A range of a file.
pub(super) struct ChunkRange {
    file: SourceFile,
    at: u64,
    end: u64,
}

impl ChunkRange {
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.end
    }
}

impl Read for ChunkRange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        self.file.read_at(self.at, &mut buffer[..len]).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}

fn too_long() -> Error {
    Error::limit("too long for the address space")
}

fn check_crc(header: &PageHeader, bytes: &[u8]) -> Result<()> {
    match header.crc {
        Some(crc) if crc32fast::hash(bytes) != crc => {
            Err(Error::malformed("the checksum of a page does not match its bytes"))
        }
        _ => Ok(()),
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
