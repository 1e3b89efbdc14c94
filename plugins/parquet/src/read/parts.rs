//! Reads a large page as several small pages. Writers check the size of a page only after many
//! values, so pages of images or documents often have hundreds of megabytes.

use super::codec;
use super::column::{ChunkRange, LocatedPage};
use super::header::{PageHeader, PageKind};
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
/// Maximum length of a page's levels in bytes.
const MAX_LEVELS: u64 = 16 << 20;
/// Estimated memory for reading parts, in bytes, without the window of the codec.
const MEMORY: u64 = 2 * PART as u64;

/// Returns whether a page is read in parts. Its values must be independent of each other.
pub(super) fn is_divided(header: &PageHeader, compression: Compression, column: &ColumnDescriptor) -> bool {
    let has_simple_levels = match header.kind {
        PageKind::Data { definition, .. } => definition == Encoding::RLE || column.max_def_level() == 0,
        PageKind::DataV2 { .. } => header.levels() <= MAX_LEVELS,
        PageKind::Dictionary | PageKind::Other => false,
    };
    header.uncompressed >= MIN_PAGE
        && header.encoding == Encoding::PLAIN
        && has_simple_levels
        && column.max_rep_level() == 0
        // Levels of parts have one byte.
        && u8::try_from(column.max_def_level()).is_ok()
        && column.physical_type() != Type::BOOLEAN
        && codec::is_streamable(compression)
}

/// Returns the header for estimating the memory of a page that is read in parts.
pub(super) fn in_parts(header: PageHeader, compression: Compression) -> PageHeader {
    let memory = MEMORY + codec::stream_memory(compression);
    PageHeader { uncompressed: header.uncompressed.min(memory), compressed: 0, ..header }
}

/// The parts of a page that have not been read.
pub(super) struct PageParts {
    stream: Box<dyn Read + Send>,
    /// The definition levels, unless every value is present.
    levels: Option<Levels>,
    max_level: i16,
    /// Length of each value in bytes; `None` for byte arrays, which have a length prefix.
    width: Option<usize>,
    left: u32,
    /// Number of bytes that the rest of the page must have.
    bytes_left: u64,
}

impl PageParts {
    /// Opens a page for which [`is_divided`] is true. `range` contains the bytes of the page.
    pub(super) fn open(
        page: &LocatedPage,
        range: ChunkRange,
        compression: Compression,
        column: &ColumnDescriptor,
    ) -> Result<Self> {
        let PageHeader { kind, uncompressed, values, crc, .. } = page.header;
        let max_level = column.max_def_level();
        let mut bytes_left = uncompressed;
        let mut take = |stream: &mut dyn Read, len: u64| -> Result<Vec<u8>> {
            let mut bytes = Vec::new();
            stream.take(len).read_to_end(&mut bytes).map_err(codec::failed)?;
            bytes_left = bytes_left.checked_sub(len).filter(|_| bytes.len() as u64 == len).ok_or_else(cut)?;
            Ok(bytes)
        };
        let mut stored = CheckedRange { range, hasher: crc.map(|_| Hasher::new()), expected: crc };
        let (stream, levels): (Box<dyn Read + Send>, _) = match kind {
            PageKind::DataV2 { definition, repetition, is_compressed, .. } => {
                take(&mut stored, repetition.into())?;
                let levels = take(&mut stored, definition.into())?;
                let compression = if is_compressed { compression } else { Compression::UNCOMPRESSED };
                (codec::stream(compression, stored)?, levels)
            }
            _ => {
                let mut stream = codec::stream(compression, stored)?;
                let levels = if max_level > 0 {
                    let len = take(&mut stream, 4)?.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
                    if u64::from(len) > MAX_LEVELS {
                        return Err(Error::limit("the levels of a page are too long")
                            .expected(format!("at most {MAX_LEVELS} bytes"))
                            .found(len));
                    }
                    take(&mut stream, len.into())?
                } else {
                    Vec::new()
                };
                (stream, levels)
            }
        };
        let width = match column.physical_type() {
            Type::BYTE_ARRAY => None,
            Type::FIXED_LEN_BYTE_ARRAY => Some(usize::try_from(column.type_length()).unwrap_or(0)),
            Type::INT96 => Some(12),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::INT32 | Type::FLOAT | Type::BOOLEAN => Some(4),
        };
        let levels = (max_level > 0).then(|| Levels::new(levels, max_level));
        Ok(Self { stream, levels, max_level, width, left: values, bytes_left })
    }

    /// Returns the next part as a page, or `None` at the end of the page. `check` is called with the
    /// length of each long value before the value is read.
    pub(super) fn next(&mut self, check: impl Fn(u64) -> Result<()>) -> Result<Option<Page>> {
        if self.left == 0 {
            return self.check_end().map(|()| None);
        }
        let (mut values, mut runs, mut rows, mut nulls) = (Vec::new(), Vec::new(), 0, 0);
        while self.left > 0 && values.len() < PART {
            let level = self.levels.as_mut().map_or(Some(self.max_level), Levels::next).ok_or_else(cut)?;
            match runs.last_mut() {
                Some((last, count)) if *last == level => *count += 1,
                _ => runs.push((level, 1_u32)),
            }
            if level == self.max_level {
                self.read_value(&mut values, &check)?;
            } else {
                nulls += 1;
            }
            self.left -= 1;
            rows += 1;
        }
        let mut buf = if self.max_level > 0 { encode(&runs) } else { Vec::new() };
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

    /// Appends the next value.
    fn read_value(&mut self, values: &mut Vec<u8>, check: impl Fn(u64) -> Result<()>) -> Result<()> {
        let len = if let Some(width) = self.width {
            width as u64
        } else {
            self.read(4, values)?;
            values.last_chunk().map_or(0, |len| u64::from(u32::from_le_bytes(*len)))
        };
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

fn cut() -> Error {
    Error::malformed("a page ends inside its values")
}

/// A range of a file. At its end, the checksum of its bytes is compared.
struct CheckedRange {
    range: ChunkRange,
    hasher: Option<Hasher>,
    expected: Option<u32>,
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

/// Definition levels, in runs of equal levels and in groups of eight packed levels.
struct Levels {
    bytes: Vec<u8>,
    at: usize,
    /// Number of bits of a level.
    width: usize,
    run: Run,
}

enum Run {
    /// This many levels with the same value.
    Equal(u64, i16),
    /// This many packed levels, and the bit at which the next one starts.
    Packed(u64, usize),
}

impl Levels {
    fn new(bytes: Vec<u8>, max_level: i16) -> Self {
        let width = (16 - max_level.leading_zeros()) as usize;
        Self { bytes, at: 0, width, run: Run::Equal(0, 0) }
    }

    /// Returns the next level, or `None` if the bytes end.
    fn next(&mut self) -> Option<i16> {
        loop {
            match &mut self.run {
                Run::Equal(left @ 1.., level) => {
                    *left -= 1;
                    return Some(*level);
                }
                Run::Packed(left @ 1.., bit) => {
                    *left -= 1;
                    let bits = *bit..*bit + self.width;
                    *bit = bits.end;
                    let bytes = &self.bytes;
                    let is_set = |bit: usize| Some(bytes.get(bit / 8)? >> (bit % 8) & 1 > 0);
                    return bits
                        .enumerate()
                        .try_fold(0, |level, (place, bit)| Some(level | i16::from(is_set(bit)?) << place));
                }
                _ => self.start_run()?,
            }
        }
    }

    fn start_run(&mut self) -> Option<()> {
        let (mut header, mut shift) = (0_u64, 0);
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            header |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        if header & 1 == 0 {
            let len = self.width.div_ceil(8);
            let value = self.bytes.get(self.at..self.at + len)?;
            let level = value.iter().rev().fold(0, |level, byte| level << 8 | i16::from(*byte));
            self.at += len;
            self.run = Run::Equal(header >> 1, level);
        } else {
            self.run = Run::Packed((header >> 1).checked_mul(8)?, self.at * 8);
            let len = usize::try_from(header >> 1).ok()?.checked_mul(self.width)?;
            self.at = self.at.checked_add(len)?;
        }
        Some(())
    }
}

/// Encodes levels as runs.
fn encode(runs: &[(i16, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (level, count) in runs {
        let mut header = u64::from(*count) << 1;
        while header >= 0x80 {
            bytes.push(u8::try_from(header & 0x7f).unwrap_or(0) | 0x80);
            header >>= 7;
        }
        bytes.push(u8::try_from(header).unwrap_or(0));
        bytes.push(u8::try_from(*level).unwrap_or(0));
    }
    bytes
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

    const ROWS: i32 = 700_000;

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
        let later = ScanRequest { first_row: 345_678, ..ScanRequest::default() };
        for (compression, version) in [
            (Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0),
            (Compression::SNAPPY, WriterVersion::PARQUET_1_0),
            (Compression::SNAPPY, WriterVersion::PARQUET_2_0),
            (Compression::GZIP(GzipLevel::try_new(1).unwrap()), WriterVersion::PARQUET_2_0),
            (Compression::BROTLI(BrotliLevel::try_new(1).unwrap()), WriterVersion::PARQUET_1_0),
            (Compression::ZSTD(ZstdLevel::default()), WriterVersion::PARQUET_1_0),
            (Compression::LZ4_RAW, WriterVersion::PARQUET_1_0),
        ] {
            let bytes = file(&table, compression, version);
            check(&read(&bytes, 256 << 20, &ScanRequest::default()).unwrap(), &table, 0);
            check(&read(&bytes, 256 << 20, &later).unwrap(), &table, 345_678);
            // The largest page has 23 MB.
            let small = read(&bytes, 64 << 20, &ScanRequest::default());
            if codec::is_streamable(compression) {
                check(&small.unwrap(), &table, 0);
            } else {
                assert_eq!(small.unwrap_err().kind(), ErrorKind::Limit);
            }
            for at in (1000..bytes.len() - 2000).step_by(bytes.len() / 3) {
                let mut bad = bytes.clone();
                bad[at..at + 1000].fill(0xff);
                // Values that are not compressed have no redundancy.
                if let Err(error) = read(&bad, 256 << 20, &ScanRequest::default()) {
                    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
                } else {
                    assert_eq!(compression, Compression::UNCOMPRESSED);
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

    #[test]
    fn levels_are_runs_or_packed() {
        // Three equal levels, eight packed levels of one bit, and five equal levels.
        let mut levels = Levels::new(vec![6, 1, 3, 0b0101_0011, 10, 0], 1);
        let found: Vec<_> = std::iter::from_fn(|| levels.next()).collect();
        assert_eq!(found, [1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        let mut packed = Levels::new(vec![3, 0b1101_0001, 0b1000_0001], 3);
        assert_eq!(std::iter::from_fn(|| packed.next()).collect::<Vec<_>>(), [1, 0, 1, 3, 1, 0, 0, 2]);
        assert_eq!(encode(&[(1, 3), (0, 200)]), [6, 1, 0x90, 3, 0]);
    }
}
