//! Streams the rows of one row group in batches.

use super::dictionary::{self, Lengths};
use super::memory::ReadMemory;
use super::pages::RowGroupPages;
use super::windows::{self, ColumnGroup, RowBatches, Windows};
use super::{OpenFile, interval, leaves, parts, text};
use crate::fault::{catch_panic, one_line};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type;
use parquet::schema::types::SchemaDescPtr;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tensorferry_sdk::arrow_array::{Array, RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{ArrowError, Fields, SchemaRef};
use tensorferry_sdk::records::{BatchStream, ExpandedBytes, FieldPath, Projection, ScanRequest, batches};
use tensorferry_sdk::{Error, ErrorKind, Result};

/// Estimated size of a null in a batch, in bytes.
const NULL: u64 = 16;
/// Number of columns from which rows are decoded in groups of columns if they fit in one window.
const MANY_COLUMNS: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct RowGroup {
    pub(super) file: OpenFile,
    /// Index of the row group in the file.
    pub(super) index: usize,
}

/// Returns a stream without rows.
pub(super) fn empty(schema: &SchemaRef, scan: &ScanRequest) -> Result<BatchStream> {
    Ok(batches(projected(schema, &paths(schema, scan))?, || Ok(None)))
}

fn paths(schema: &SchemaRef, scan: &ScanRequest) -> Vec<FieldPath> {
    let all = || (0..schema.fields().len()).map(|column| vec![column]).collect();
    scan.columns.clone().unwrap_or_else(all)
}

fn projected(schema: &SchemaRef, paths: &[FieldPath]) -> Result<SchemaRef> {
    Ok(Projection::new(schema, paths)?.schema())
}

/// Callback that receives the total number of decoded bytes. If the callback returns an error, the
/// stream ends.
pub(super) type CountBytes = Box<dyn Fn(ExpandedBytes) -> Result<()> + Send>;

/// Streams the requested columns and rows. A decoded page or row may have at most `max` bytes.
pub(super) fn open(
    group: &RowGroup,
    schema: &SchemaRef,
    scan: &ScanRequest,
    max: u64,
    memory: Arc<ReadMemory>,
    count_bytes: CountBytes,
) -> Result<BatchStream> {
    let columns = paths(schema, scan);
    let schema = projected(schema, &columns)?;
    let rows = u64::try_from(group.file.metadata.row_group(group.index).num_rows()).unwrap_or(0);
    let first_row = scan.first_row.min(rows);
    let left = scan.limit.unwrap_or(rows).min(rows - first_row);
    let pages = RowGroupPages::new(&group.file, group.index, max, memory);
    let mut stream = Stream {
        name: group.file.file.name().to_owned(),
        fields: group.file.fields.clone(),
        descriptor: group.file.schema.clone(),
        schema,
        columns,
        rows: RowBatches { first_row, left, batch_rows: 1 },
        batch_bytes: 0,
        decoded: ExpandedBytes::default(),
        count_bytes,
        pages,
        decoder: Decoder::Nothing,
    };
    stream.size_batches(scan).map_err(|error| stream.with_location(error))?;
    if !stream.columns.is_empty() && left > 0 {
        let decoder = stream.decoder();
        stream.decoder = decoder.map_err(|error| stream.with_location(error))?;
    }
    Ok(batches(stream.schema.clone(), move || stream.batch()))
}

enum Decoder {
    Nothing,
    /// Decodes all columns at once.
    Whole(ParquetRecordBatchReader),
    Windows(Windows),
}

struct Stream {
    name: String,
    /// Fields that the `parquet` crate reads.
    fields: Fields,
    descriptor: SchemaDescPtr,
    schema: SchemaRef,
    columns: Vec<FieldPath>,
    /// The remaining rows.
    rows: RowBatches,
    /// Estimated size of a batch in bytes.
    batch_bytes: u64,
    decoded: ExpandedBytes,
    count_bytes: CountBytes,
    pages: RowGroupPages,
    decoder: Decoder,
}

impl Stream {
    fn with_location(&self, error: Error) -> Error {
        error.context(format!("row group {}", self.pages.index)).file(&self.name)
    }

    /// Opens a decoder of the remaining rows.
    fn decoder(&self) -> Result<Decoder> {
        let batches = self.rows.left.div_ceil(self.rows.batch_rows as u64);
        let bytes = self.batch_bytes.saturating_mul(batches);
        if self.columns.len() >= MANY_COLUMNS && bytes <= self.pages.memory.window(0) {
            // Decoders of all columns would need more memory and time than one decoder at a time.
            let windows = self.windows()?;
            if windows.is_single() {
                return Ok(Decoder::Windows(windows));
            }
        }
        let levels = self.levels(&self.columns)?;
        let whole = self.rows.reader(&levels, &self.pages.counted());
        if whole.is_err() && self.pages.take_out_of_memory() {
            self.windows().map(Decoder::Windows)
        } else {
            whole.map(Decoder::Whole)
        }
    }

    /// Opens a decoder of the remaining rows that decodes one group of columns after another.
    fn windows(&self) -> Result<Windows> {
        let groups = self.groups()?.into_iter();
        let groups = groups.map(|group| {
            let levels = self.levels(&self.columns[group.paths.clone()])?;
            Ok((group, levels))
        });
        let groups = groups.collect::<Result<Vec<_>>>()?;
        Ok(Windows::new(groups, self.rows, self.batch_bytes, &self.pages))
    }

    /// Distributes the columns over groups whose pages fit in memory.
    fn groups(&self) -> Result<Vec<ColumnGroup>> {
        let mut columns: Vec<(Range<usize>, u64)> = Vec::new();
        for (index, path) in self.columns.iter().enumerate() {
            let mut memory: u64 = 0;
            for leaf in self.leaves(std::slice::from_ref(path))? {
                let chunk = self.pages.chunk(leaf);
                let of_leaf = parts::max_memory(&chunk).map_err(|error| chunk.named(error))?;
                memory = memory.saturating_add(of_leaf);
            }
            match columns.last_mut() {
                // Fields of the same struct are decoded together.
                Some((paths, sum)) if self.columns[paths.start].first() == path.first() => {
                    paths.end = index + 1;
                    *sum = sum.saturating_add(memory);
                }
                _ => columns.push((index..index + 1, memory)),
            }
        }
        for (paths, memory) in &columns {
            let checked = self.pages.memory.check(*memory);
            checked.map_err(|error| match self.name(paths.start) {
                Some(name) => error.column(name),
                None => error,
            })?;
        }
        Ok(windows::groups(columns, self.pages.memory.group()))
    }

    /// Returns the name of the column with this path.
    fn name(&self, path: usize) -> Option<String> {
        let column = self.columns[path].first().and_then(|&column| self.fields.get(column));
        column.map(|column| column.name().clone())
    }

    fn levels(&self, columns: &[FieldPath]) -> Result<FieldLevels> {
        let wanted = self.leaves(columns)?;
        catch_panic(|| {
            let mask = ProjectionMask::leaves(&self.descriptor, wanted);
            parquet_to_arrow_field_levels(&self.descriptor, mask, Some(&self.fields))
        })
    }

    fn leaves(&self, columns: &[FieldPath]) -> Result<Vec<usize>> {
        let descriptor = self.pages.metadata.file_metadata().schema_descr();
        let ranges = columns.iter().map(|path| leaves::of(descriptor, path));
        Ok(ranges.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Determines the number of rows per batch. The number depends on the lengths of the chunks. It
    /// is small enough that a batch never exceeds `max` bytes, even if the longest value is
    /// repeated.
    fn size_batches(&mut self, request: &ScanRequest) -> Result<()> {
        let group = self.pages.group();
        let rows = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
        let wanted = self.leaves(&self.columns)?;
        let (mut bytes, mut widest, mut row): (u64, u64, u64) = (0, 1, 1);
        for (index, column) in group.columns().iter().enumerate() {
            if wanted.binary_search(&index).is_err() {
                continue;
            }
            let values = u64::try_from(column.num_values()).unwrap_or(0);
            let encoded = u64::try_from(column.uncompressed_size()).unwrap_or(0);
            let lengths = match column.column_type() {
                Type::BOOLEAN => Lengths { mean: 1, longest: 1 },
                Type::INT32 | Type::FLOAT => Lengths { mean: 4, longest: 4 },
                Type::INT64 | Type::DOUBLE | Type::INT96 => Lengths { mean: 8, longest: 8 },
                Type::FIXED_LEN_BYTE_ARRAY => {
                    let width = u64::try_from(column.column_descr().type_length()).unwrap_or(0);
                    Lengths { mean: width, longest: width }
                }
                Type::BYTE_ARRAY if column.dictionary_page_offset().is_some() => {
                    self.dictionary_lengths(index)?
                }
                Type::BYTE_ARRAY => Lengths::default(),
            };
            bytes = bytes.saturating_add(encoded.max(values.saturating_mul(lengths.mean)));
            widest = widest.max(lengths.longest.saturating_mul(values.div_ceil(rows)));
            // In a fixed-length column, a null uses as much memory as any other value. In other
            // columns, a null uses only an offset and its levels.
            let is_fixed = column.column_type() == Type::FIXED_LEN_BYTE_ARRAY;
            row = row.saturating_add(if is_fixed { lengths.longest.max(NULL) } else { NULL });
        }
        widest = widest.max(row);
        if widest > self.pages.max {
            return Err(Error::limit("values are too long")
                .expected(format!("at most {} bytes", self.pages.max))
                .found(widest));
        }
        let by_bytes = u128::from(request.bytes) * u128::from(rows) / u128::from(bytes.max(1));
        let within = u64::try_from(by_bytes).unwrap_or(u64::MAX).min(self.pages.max / widest).min(rows);
        self.rows.batch_rows = usize::try_from(within).unwrap_or(usize::MAX).clamp(1, request.rows.max(1));
        let batch = u128::from(bytes) * self.rows.batch_rows as u128 / u128::from(rows);
        self.batch_bytes = u64::try_from(batch).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Measures the values in the dictionary of a leaf column.
    fn dictionary_lengths(&self, leaf: usize) -> Result<Lengths> {
        let failed = |error| self.pages.first_error.take().unwrap_or(error);
        let opened = catch_panic(|| {
            let mut pages = self.pages.pages(leaf)?;
            Ok((pages.memory_of_first_page()?, pages))
        });
        let (memory, mut pages) = opened.map_err(failed)?;
        let decoding = self.pages.memory.decode(memory);
        let _decoding = decoding.map_err(|error| self.pages.chunk(leaf).named(error))?;
        Ok(catch_panic(|| dictionary::lengths(&mut pages)).map_err(failed)?.unwrap_or_default())
    }

    /// Returns the next batch, or an error that names the column.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        self.next_batch().map_err(|error| {
            self.decoder = Decoder::Nothing;
            let error = match self.pages.first_error.take() {
                Some(kept) => kept,
                None if error.kind() == ErrorKind::Limit => error,
                None => match self.find_bad_column() {
                    Some(column) => error.column(column),
                    None => error,
                },
            };
            self.with_location(error)
        })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows.left == 0 {
            return Ok(None);
        }
        let columns = match &mut self.decoder {
            Decoder::Nothing => Vec::new(),
            Decoder::Whole(reader) => match windows::decode(reader, &self.pages) {
                Err(_) if self.pages.take_out_of_memory() => {
                    // The memory of the current decoder is released first.
                    self.decoder = Decoder::Nothing;
                    self.decoder = Decoder::Windows(self.windows()?);
                    return self.next_batch();
                }
                decoded => decoded?.ok_or_else(|| {
                    Error::malformed("fewer rows than the footer claims")
                        .found(format!("{} less", self.rows.left))
                })?,
            },
            Decoder::Windows(windows) => windows.next(&self.pages)?,
        };
        for (column, field) in columns.iter().zip(self.schema.fields()) {
            text::check(column).map_err(|error| error.column(field.name()))?;
        }
        let expanded = columns.iter().map(|column| ExpandedBytes::of(column));
        // Dictionaries and runs are only forms of compression in Parquet, so decoded values do not
        // share memory.
        self.decoded.bytes += expanded.map(|expanded| expanded.bytes).sum::<u64>();
        (self.count_bytes)(self.decoded)?;
        let rows = columns.first().map_or(self.rows.batch_rows, |column| column.len());
        let rows = rows.min(usize::try_from(self.rows.left).unwrap_or(usize::MAX));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let as_read = columns.iter().zip(self.schema.fields());
        let columns = as_read.map(|(column, field)| interval::decode(column, field.data_type()));
        let columns = columns.collect::<Result<_, _>>();
        let columns = columns.map_err(|error| Error::malformed(one_line(&error.to_string())))?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        let batch = batch.map_err(|error| Error::malformed(one_line(&error.to_string())))?;
        self.rows.first_row += rows as u64;
        self.rows.left -= rows as u64;
        Ok(Some(batch))
    }

    /// Finds the first unreadable column, because the `parquet` crate does not report which column
    /// it is. The search first reads the groups of columns that fit in memory. Each step of the
    /// bisection then reads half of the group's remaining columns, so the search takes about as long
    /// as reading all columns once.
    fn find_bad_column(&self) -> Option<String> {
        let groups = self.groups().ok()?;
        let (last, others) = groups.split_last()?;
        let is_bad = |group: &&ColumnGroup| {
            let decoding = self.pages.memory.decode(group.memory);
            decoding.is_ok() && !self.is_readable(&self.columns[group.paths.clone()])
        };
        let group = others.iter().find(is_bad).unwrap_or(last);
        let _decoding = self.pages.memory.decode(group.memory).ok()?;
        let Range { start: mut from, end: mut to } = group.paths;
        while to - from > 1 {
            let middle = from.midpoint(to);
            if self.is_readable(&self.columns[from..middle]) { from = middle } else { to = middle }
        }
        if from == to {
            return None;
        }
        let is_bad = !self.is_readable(&self.columns[from..to]);
        // Errors from the repeated reads are discarded.
        drop(self.pages.first_error.take());
        self.name(from).filter(|_| is_bad)
    }

    /// Returns whether these columns are readable and contain all rows of the group.
    fn is_readable(&self, columns: &[FieldPath]) -> bool {
        let rows = u64::try_from(self.pages.group().num_rows()).unwrap_or(0);
        let rows = RowBatches { first_row: 0, left: rows, ..self.rows };
        let reader = self.levels(columns).and_then(|levels| rows.reader(&levels, &self.pages));
        let Ok(reader) = reader else { return false };
        let drained = catch_unwind(AssertUnwindSafe(|| {
            let mut rows = 0;
            for batch in reader {
                rows += batch?.num_rows();
                self.pages.listed.store(0, Ordering::Relaxed);
            }
            Ok::<_, ArrowError>(rows)
        }));
        matches!(drained, Ok(Ok(rows)) if i64::try_from(rows) == Ok(self.pages.group().num_rows()))
    }
}
