//! Reads a large page as several small pages. Writers check the size of a page only after many
//! values, so pages of images or documents often have hundreds of megabytes.
//!
//! The same applies to dictionaries. If all values of a column are different, its dictionary has the
//! values in the order of the rows, so the pages of indices are read together with the dictionary.

use super::codec;
use super::column::{ChunkRange, ColumnChunk, LocatedPage};
use super::header::{PageHeader, PageKind};
use super::levels::{Numbers, encode, split_levels};
use crc32fast::Hasher;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;
use std::io::{self, Read};
use tensorferry_sdk::{Error, Result};

/// Minimum size of a page that is read in parts, in bytes after decompression.
const MIN_PAGE: u64 = 4 << 20;
/// Size of a part in bytes. A part with one value may be larger.
const PART: usize = 1 << 20;
/// Maximum length of a page of indices that is compared with a sequence, in bytes.
const MAX_INDICES: u64 = 1 << 20;
/// Maximum length of a page's levels in bytes.
const MAX_LEVELS: u64 = 16 << 20;
/// Estimated memory for reading parts, in bytes, without the window of the codec.
const MEMORY: u64 = 2 * PART as u64;

/// Returns whether a page is read in parts. Its values must be independent of each other.
pub(super) fn is_divided(header: &PageHeader, compression: Compression, column: &ColumnDescriptor) -> bool {
    header.uncompressed >= MIN_PAGE
        && header.encoding == Encoding::PLAIN
        && has_simple_levels(header, column)
        && column.physical_type() != Type::BOOLEAN
        && codec::is_streamable(compression)
}

/// Returns whether a page has no lists, and its levels can be read without the rest of the page.
pub(super) fn has_simple_levels(header: &PageHeader, column: &ColumnDescriptor) -> bool {
    let is_known = match header.kind {
        PageKind::Data { definition, .. } => definition == Encoding::RLE || column.max_def_level() == 0,
        PageKind::DataV2 { .. } => header.levels() <= MAX_LEVELS,
        PageKind::Dictionary | PageKind::Other => false,
    };
    // Levels of parts have one byte.
    is_known && column.max_rep_level() == 0 && u8::try_from(column.max_def_level()).is_ok()
}

/// Returns whether a page is a large dictionary with independent values, to which the following pages
/// refer in order, each once. If reading these pages fails, returns `false`; reading them later fails
/// too.
pub(super) fn is_sequence(chunk: &ColumnChunk, dictionary: &LocatedPage) -> bool {
    let as_values = PageHeader {
        kind: PageKind::Data { definition: Encoding::RLE, repetition: Encoding::RLE },
        encoding: Encoding::PLAIN,
        ..dictionary.header
    };
    dictionary.header.kind == PageKind::Dictionary
        && is_divided(&as_values, chunk.compression, &chunk.descriptor)
        && has_ascending_indices(chunk, dictionary).unwrap_or(false)
}

fn has_ascending_indices(chunk: &ColumnChunk, dictionary: &LocatedPage) -> Result<bool> {
    let claimed = chunk.values;
    let mut chunk = chunk.clone();
    chunk.move_behind(dictionary);
    let (mut next, mut values) = (0, 0_u64);
    while values < claimed
        && let Some(located) = chunk.next_page()?
    {
        let header = &located.header;
        values = values.saturating_add(header.values.into());
        if header.is_indexed() {
            if header.uncompressed > MAX_INDICES || !has_simple_levels(header, &chunk.descriptor) {
                return Ok(false);
            }
            let page = located.page(chunk.read(&located)?);
            match after(next, &page, &chunk.descriptor)? {
                Some(after) => next = after,
                None => return Ok(false),
            }
        }
        chunk.move_behind(&located);
    }
    Ok(true)
}

/// Checks that the indices of a page are `next`, `next + 1` and so on. Returns the index after the
/// last one, or `None` for other indices.
fn after(next: u32, page: &Page, column: &ColumnDescriptor) -> Result<Option<u32>> {
    let max_level = column.max_def_level();
    let (levels, indices) = split_levels(page, column)?;
    let (mut levels, mut indices) =
        (Numbers::levels(levels.to_vec(), max_level), Numbers::indices(indices.to_vec()));
    let mut expected = next;
    for _ in 0..page.num_values() {
        let level = if max_level == 0 { Some(0) } else { levels.next() };
        if level == Some(u32::from(max_level.unsigned_abs())) {
            if indices.next() != Some(expected) {
                return Ok(None);
            }
            expected = expected.saturating_add(1);
        }
    }
    Ok(Some(expected))
}

/// Returns the header for estimating the memory of a page that is read in parts.
pub(super) fn in_parts(chunk: &ColumnChunk, header: PageHeader) -> PageHeader {
    let memory = MEMORY + codec::stream_memory(chunk.compression);
    let kind = PageKind::Data { definition: Encoding::RLE, repetition: Encoding::RLE };
    PageHeader { kind, uncompressed: header.uncompressed.min(memory), compressed: 0, ..header }
}

/// Returns the header for estimating the memory of a page that is not a sequence.
pub(super) fn estimated(chunk: &ColumnChunk, header: PageHeader) -> PageHeader {
    let is_divided = is_divided(&header, chunk.compression, &chunk.descriptor);
    if is_divided { in_parts(chunk, header) } else { header }
}

/// Returns the maximum number of bytes that the column's decoder needs. Reads the headers of
/// all pages.
pub(super) fn max_memory(chunk: &ColumnChunk) -> Result<u64> {
    let mut decoder = chunk.decoder_memory();
    let claimed = chunk.values;
    let mut chunk = chunk.clone();
    let mut max = decoder.bytes();
    let (mut dictionary, mut longest, mut values) = (0, 0, 0_u64);
    loop {
        let page = match chunk.next_page() {
            // Some writers leave other bytes behind the last page.
            Err(_) if values >= claimed => break,
            page => page?,
        };
        let Some(page) = page else { break };
        let is_sequence = is_sequence(&chunk, &page);
        let header = if is_sequence { in_parts(&chunk, page.header) } else { estimated(&chunk, page.header) };
        let loading = decoder.load(&header);
        max = max.max(loading);
        if is_sequence {
            longest = longest.max(header.uncompressed);
        } else if header.kind == PageKind::Dictionary {
            dictionary = loading;
        } else {
            longest = longest.max(header.uncompressed);
            values = values.saturating_add(page.header.values.into());
        }
        chunk.move_behind(&page);
    }
    // A dictionary that was skipped is read after the first page that needs it.
    Ok(if dictionary > 0 { max.max(dictionary.saturating_add(longest)) } else { max })
}

/// Values that are read one after another.
struct ValueStream {
    stream: Box<dyn Read + Send>,
    /// Length of each value in bytes; `None` for byte arrays, which have a length prefix.
    width: Option<usize>,
    /// Number of bytes that the rest of the page must have.
    bytes_left: u64,
}

/// The rest of a dictionary whose values are in the order of the rows.
pub(super) struct Sequence {
    values: ValueStream,
    /// Index of the next value.
    next: u32,
}

/// The parts of a page that have not been read.
pub(super) struct PageParts {
    /// The definition levels, unless every value is present.
    levels: Option<Numbers>,
    max_level: i16,
    /// Number of values, including nulls.
    left: u32,
    /// The values of the page; `None` if they are in the dictionary.
    values: Option<ValueStream>,
}

impl Sequence {
    /// Opens a dictionary for which [`is_sequence`] is true.
    pub(super) fn open(chunk: &ColumnChunk, page: &LocatedPage) -> Result<Self> {
        let stream = codec::stream(chunk.compression, CheckedRange::new(chunk, page))?;
        let values =
            ValueStream { stream, width: width(&chunk.descriptor), bytes_left: page.header.uncompressed };
        Ok(Self { values, next: 0 })
    }
}

impl ValueStream {
    /// Appends the next value.
    fn read_value(&mut self, values: &mut Vec<u8>, check: impl Fn(u64) -> Result<()>) -> Result<()> {
        let len = if let Some(width) = self.width {
            width as u64
        } else {
            self.read(4, values)?;
            values.last_chunk().map_or(0, |len| u64::from(u32::from_le_bytes(*len)))
        };
        if len > self.bytes_left {
            return Err(cut());
        }
        if len > PART as u64 {
            // The value is in the page and then in a batch.
            check(len * 2)?;
        }
        self.read(len, values)
    }

    fn read(&mut self, len: u64, to: &mut Vec<u8>) -> Result<()> {
        self.bytes_left = self.bytes_left.checked_sub(len).ok_or_else(cut)?;
        let start = to.len();
        // The length of a value is a claim, so the memory grows with the bytes that exist.
        (&mut self.stream).take(len).read_to_end(to).map_err(codec::failed)?;
        if (to.len() - start) as u64 == len { Ok(()) } else { Err(cut()) }
    }

    /// Checks that the page has no more bytes. Reading the end also checks the checksum.
    fn check_end(&mut self) -> Result<()> {
        let more = io::copy(&mut (&mut self.stream).take(self.bytes_left + 1), &mut io::sink());
        if more.map_err(codec::failed)? == self.bytes_left {
            return Ok(());
        }
        Err(Error::malformed("the page has a different length than its header claims"))
    }
}

impl PageParts {
    /// Opens a page for which [`is_divided`] is true.
    pub(super) fn open(chunk: &ColumnChunk, page: &LocatedPage) -> Result<Self> {
        let (column, compression) = (&chunk.descriptor, chunk.compression);
        let PageHeader { kind, uncompressed, values: left, .. } = page.header;
        let max_level = column.max_def_level();
        let width = width(column);
        let stored = CheckedRange::new(chunk, page);
        let open = |stream| ValueStream { stream, width, bytes_left: uncompressed };
        let mut levels = Vec::new();
        let values = if let PageKind::DataV2 { definition, repetition, is_compressed, .. } = kind {
            let mut values = open(Box::new(stored) as Box<dyn Read + Send>);
            values.read(repetition.into(), &mut Vec::new())?;
            values.read(definition.into(), &mut levels)?;
            let compression = if is_compressed { compression } else { Compression::UNCOMPRESSED };
            ValueStream { stream: codec::stream(compression, values.stream)?, ..values }
        } else {
            let mut values = open(codec::stream(compression, stored)?);
            if max_level > 0 {
                values.read(4, &mut levels)?;
                let len = levels.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
                if u64::from(len) > MAX_LEVELS {
                    return Err(Error::limit("the levels of a page are too long")
                        .expected(format!("at most {MAX_LEVELS} bytes"))
                        .found(len));
                }
                levels.clear();
                values.read(len.into(), &mut levels)?;
            }
            values
        };
        let levels = (max_level > 0).then(|| Numbers::levels(levels, max_level));
        Ok(Self { levels, max_level, left, values: Some(values) })
    }

    /// Opens a page of indices, which must be those of the next values in the sequence.
    pub(super) fn indexed(page: &Page, column: &ColumnDescriptor, sequence: &mut Sequence) -> Result<Self> {
        // The footer may claim fewer values than the pages have, so not all pages were checked.
        sequence.next = after(sequence.next, page, column)?.ok_or_else(|| {
            Error::malformed("a column has more values than its footer claims, and they are not in order")
        })?;
        let max_level = column.max_def_level();
        let levels = split_levels(page, column)?.0;
        let levels = (max_level > 0).then(|| Numbers::levels(levels.to_vec(), max_level));
        Ok(Self { levels, max_level, left: page.num_values(), values: None })
    }

    /// Returns the next part as a page, or `None` at the end of the page. `check` is called with the
    /// length of each long value before the value is read.
    pub(super) fn next(
        &mut self,
        sequence: Option<&mut Sequence>,
        check: impl Fn(u64) -> Result<()>,
    ) -> Result<Option<Page>> {
        let is_own = self.values.is_some();
        let source =
            self.values.as_mut().or(sequence.map(|sequence| &mut sequence.values)).ok_or_else(cut)?;
        if self.left == 0 {
            return if is_own { source.check_end().map(|()| None) } else { Ok(None) };
        }
        let max_level = u32::from(self.max_level.unsigned_abs());
        let (mut values, mut runs, mut rows, mut nulls) = (Vec::new(), Vec::new(), 0, 0);
        while self.left > 0 && values.len() < PART {
            let level = self.levels.as_mut().map_or(Some(max_level), Numbers::next).ok_or_else(cut)?;
            match runs.last_mut() {
                Some((last, count)) if *last == level => *count += 1,
                _ => runs.push((level, 1_u32)),
            }
            if level == max_level {
                source.read_value(&mut values, &check)?;
            } else {
                nulls += 1;
            }
            self.left -= 1;
            rows += 1;
        }
        let mut buf = if max_level > 0 { encode(&runs) } else { Vec::new() };
        let levels = u32::try_from(buf.len()).map_err(|_| cut())?;
        buf.append(&mut values);
        Ok(Some(Page::DataPageV2 {
            buf: buf.into(),
            num_values: rows,
            encoding: Encoding::PLAIN,
            num_nulls: nulls,
            num_rows: rows,
            def_levels_byte_len: levels,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        }))
    }
}

fn width(column: &ColumnDescriptor) -> Option<usize> {
    match column.physical_type() {
        Type::BYTE_ARRAY => None,
        Type::FIXED_LEN_BYTE_ARRAY => Some(usize::try_from(column.type_length()).unwrap_or(0)),
        Type::INT96 => Some(12),
        Type::INT64 | Type::DOUBLE => Some(8),
        Type::INT32 | Type::FLOAT | Type::BOOLEAN => Some(4),
    }
}

fn cut() -> Error {
    Error::malformed("a page ends inside its values")
}

/// A range of a file. At its end, the checksum of its bytes is compared.
struct CheckedRange {
    range: ChunkRange,
    hasher: Option<Hasher>,
    expected: Option<u32>,
}

impl CheckedRange {
    fn new(chunk: &ColumnChunk, page: &LocatedPage) -> Self {
        let range = chunk.range(page);
        Self { range, hasher: page.header.crc.map(|_| Hasher::new()), expected: page.header.crc }
    }
}

impl Read for CheckedRange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.range.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..len]);
        }
        if self.range.is_at_end()
            && let (Some(hasher), Some(expected)) = (self.hasher.take(), self.expected)
            && hasher.finalize() != expected
        {
            let error = Error::malformed("the checksum of a page does not match its bytes");
            return Err(io::Error::other(error));
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::Parquet;
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use std::sync::Arc;
    use tensorferry_sdk::arrow_array::{
        ArrayRef, BinaryArray, Float64Array, Int32Array, RecordBatch, StructArray,
    };
    use tensorferry_sdk::arrow_schema::{DataType, Field};
    use tensorferry_sdk::memory::records;
    use tensorferry_sdk::records::{ScanRequest, from_stream};
    use tensorferry_sdk::{ErrorKind, Limits, MemoryContext, MemorySource};
    use tensorferry_test_kit::rows::rows;

    const ROWS: i32 = 600_000;

    /// Returns columns whose pages have more than 4 MiB.
    fn table() -> RecordBatch {
        let documents = (0..ROWS).map(|row| match row % 3000 {
            7 => Some(format!("{row} ").repeat(20_000).into_bytes()),
            11 => Some(Vec::new()),
            _ => None,
        });
        let floats: Float64Array =
            (0..ROWS).map(|row| (row % 9 > 0 || row > ROWS / 2).then(|| f64::from(row).sqrt())).collect();
        let fields = [("n", DataType::Float64), ("i", DataType::Int32)]
            .map(|(name, data_type)| Field::new(name, data_type, true));
        let numbers: Int32Array = (0..ROWS).map(|row| (row % 4 > 0).then_some(row)).collect();
        let nulls = (0..ROWS).map(|row| row % 5 != 2).collect();
        let nested: [ArrayRef; 2] = [Arc::new(floats.clone()), Arc::new(numbers)];
        let nested = StructArray::new(fields.to_vec().into(), nested.to_vec(), Some(nulls));
        let required = Float64Array::from_iter_values((0..ROWS).map(f64::from));
        rows(vec![
            ("documents", Arc::new(documents.collect::<BinaryArray>())),
            ("floats", Arc::new(floats)),
            ("nested", Arc::new(nested)),
            ("required", Arc::new(required)),
        ])
    }

    fn file(batch: &RecordBatch, compression: Compression, version: WriterVersion) -> Vec<u8> {
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_writer_version(version)
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_data_page_size_limit(1 << 30)
            .set_data_page_row_count_limit(1 << 30)
            .set_write_batch_size(1 << 20)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn read(bytes: &[u8], memory: u64, scan: &ScanRequest) -> Result<Vec<RecordBatch>> {
        let mut limits = Limits::default();
        limits.memory_bytes = memory;
        let source = Arc::new(MemorySource::file("in.parquet", bytes));
        let set = records::open(&Parquet, &[], source, &MemoryContext::new(limits))?;
        set.scan(0, scan)?.map(|batch| batch.map_err(from_stream)).collect()
    }

    fn check(found: &[RecordBatch], expected: &RecordBatch, first: usize) {
        let mut row = first;
        for batch in found {
            let expected = expected.slice(row, batch.num_rows());
            for (found, expected) in batch.columns().iter().zip(expected.columns()) {
                assert_eq!(found, expected, "rows from {row} onward");
            }
            row += batch.num_rows();
        }
        assert_eq!(row, expected.num_rows());
    }

    #[test]
    fn parts_have_the_values_of_the_page() {
        let table = table();
        let later = ScanRequest { first_row: 300_001, ..ScanRequest::default() };
        for (compression, version) in [
            (Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0),
            (Compression::SNAPPY, WriterVersion::PARQUET_2_0),
            (Compression::GZIP(GzipLevel::try_new(1).unwrap()), WriterVersion::PARQUET_1_0),
            (Compression::BROTLI(BrotliLevel::try_new(1).unwrap()), WriterVersion::PARQUET_1_0),
            (Compression::ZSTD(ZstdLevel::default()), WriterVersion::PARQUET_2_0),
            (Compression::LZ4_RAW, WriterVersion::PARQUET_1_0),
        ] {
            let bytes = file(&table, compression, version);
            check(&read(&bytes, 256 << 20, &later).unwrap(), &table, 300_001);
            // The largest page has more than 20 MB.
            if compression == Compression::LZ4_RAW {
                let error = read(&bytes, 40 << 20, &ScanRequest::default()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            }
            if compression != Compression::SNAPPY {
                continue;
            }
            check(&read(&bytes, 40 << 20, &ScanRequest::default()).unwrap(), &table, 0);
            for at in [1000, bytes.len() / 2] {
                let mut bad = bytes.clone();
                bad[at..at + 1000].fill(0xff);
                // Without a checksum, a damaged value is not an error.
                if let Err(error) = read(&bad, 256 << 20, &ScanRequest::default()) {
                    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
                }
            }
        }
    }

    #[test]
    fn a_dictionary_in_the_order_of_the_rows_is_read_in_parts() {
        let image = |row: i32| format!("{row:x>8}").repeat(2500);
        let unique = |row: i32| (row % 7 > 0).then(|| image(row));
        let repeated = |row: i32| (row % 7 > 0).then(|| image(row % 900));
        for (text, is_sequence) in [(&unique as &dyn Fn(i32) -> Option<String>, true), (&repeated, false)] {
            let images: BinaryArray = (0..1000).map(|row| text(row).map(String::into_bytes)).collect();
            let table = rows(vec![("images", Arc::new(images))]);
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_writer_version(version)
                    .set_dictionary_page_size_limit(1 << 30)
                    .build();
                let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(properties)).unwrap();
                writer.write(&table).unwrap();
                let bytes = writer.into_inner().unwrap();
                let later = ScanRequest { first_row: 345, ..ScanRequest::default() };
                check(&read(&bytes, 256 << 20, &ScanRequest::default()).unwrap(), &table, 0);
                check(&read(&bytes, 256 << 20, &later).unwrap(), &table, 345);
                // The dictionary has 17 MB.
                let small = read(&bytes, 24 << 20, &ScanRequest::default());
                if is_sequence {
                    check(&small.unwrap(), &table, 0);
                } else {
                    assert_eq!(small.unwrap_err().kind(), ErrorKind::Limit);
                }
            }
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_a_limit() {
        let value: ArrayRef = Arc::new(BinaryArray::from_iter_values([vec![7; 20 << 20]]));
        let table = rows(vec![("image", value)]);
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
            let bytes = file(&table, compression, WriterVersion::PARQUET_1_0);
            let error = read(&bytes, 32 << 20, &ScanRequest::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            assert!(error.details().any(|(name, value)| name == "column" && value == "image"), "{error:?}");
            check(&read(&bytes, 256 << 20, &ScanRequest::default()).unwrap(), &table, 0);
        }
    }
}
