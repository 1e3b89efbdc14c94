//! Streams the rows of one row group in batches.

use super::dictionary::{self, Lengths};
use super::pages::RowGroupPages;
use super::{OpenFile, interval, leaves, text};
use crate::fault::{catch_panic, one_line, panic_error, read_error};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type;
use parquet::schema::types::SchemaDescPtr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tensorferry_sdk::arrow_array::{Array, RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{ArrowError, Fields, SchemaRef};
use tensorferry_sdk::records::{BatchStream, ExpandedBytes, FieldPath, Projection, ScanRequest, batches};
use tensorferry_sdk::{Error, ErrorKind, Result};

/// Estimated size of a null in a batch, in bytes.
const NULL: u64 = 16;

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
    count_bytes: CountBytes,
) -> Result<BatchStream> {
    let columns = paths(schema, scan);
    let schema = projected(schema, &columns)?;
    let rows = u64::try_from(group.file.metadata.row_group(group.index).num_rows()).unwrap_or(0);
    let first_row = scan.first_row.min(rows);
    let left = scan.limit.unwrap_or(rows).min(rows - first_row);
    let pages = RowGroupPages::new(&group.file, group.index, max);
    let mut stream = Stream {
        name: group.file.file.name().to_owned(),
        fields: group.file.fields.clone(),
        descriptor: group.file.schema.clone(),
        schema,
        columns,
        left,
        decoded: ExpandedBytes::default(),
        count_bytes,
        batch_rows: 1,
        listed: pages.listed.clone(),
        pages,
        reader: None,
    };
    let batch_rows = stream.rows_of_a_batch(scan);
    stream.batch_rows = batch_rows.map_err(|error| stream.with_location(error))?;
    if !stream.columns.is_empty() && left > 0 {
        let is_whole = left == rows;
        let selection = (!is_whole).then(|| selection(first_row, left));
        let reader = stream.reader(&stream.columns, selection);
        stream.reader = Some(reader.map_err(|error| stream.with_location(error))?);
    }
    Ok(batches(stream.schema.clone(), move || stream.batch()))
}

/// Selects a range of rows. Counts that exceed `usize` are clamped.
fn selection(first_row: u64, rows: u64) -> RowSelection {
    let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    vec![RowSelector::skip(count(first_row)), RowSelector::select(count(rows))].into()
}

struct Stream {
    name: String,
    /// Fields that the `parquet` crate reads.
    fields: Fields,
    descriptor: SchemaDescPtr,
    schema: SchemaRef,
    columns: Vec<FieldPath>,
    /// Number of remaining rows.
    left: u64,
    decoded: ExpandedBytes,
    count_bytes: CountBytes,
    batch_rows: usize,
    listed: Arc<AtomicU64>,
    pages: RowGroupPages,
    /// The decoder, or `None` if there is nothing to decode.
    reader: Option<ParquetRecordBatchReader>,
}

impl Stream {
    fn with_location(&self, error: Error) -> Error {
        error.context(format!("row group {}", self.pages.index)).file(&self.name)
    }

    fn reader(
        &self,
        columns: &[FieldPath],
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader> {
        let descriptor = &self.descriptor;
        let wanted = self.leaves(columns)?;
        let built = catch_panic(|| {
            let mask = ProjectionMask::leaves(descriptor, wanted);
            let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(&self.fields))?;
            ParquetRecordBatchReader::try_new_with_row_groups(
                &levels,
                &self.pages,
                self.batch_rows,
                selection,
            )
        });
        built.map_err(|error| self.pages.first_error.take().unwrap_or(error))
    }

    fn leaves(&self, columns: &[FieldPath]) -> Result<Vec<usize>> {
        let descriptor = self.pages.metadata.file_metadata().schema_descr();
        let ranges = columns.iter().map(|path| leaves::of(descriptor, path));
        Ok(ranges.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Returns the number of rows per batch. The number depends on the lengths of the chunks. It is
    /// small enough that a batch never exceeds `max` bytes, even if the longest value is repeated.
    fn rows_of_a_batch(&self, request: &ScanRequest) -> Result<usize> {
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
                    let read = catch_panic(|| dictionary::lengths(&mut self.pages.pages(index)?));
                    let read = read.map_err(|error| self.pages.first_error.take().unwrap_or(error))?;
                    read.unwrap_or_default()
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
        Ok(usize::try_from(within).unwrap_or(usize::MAX).clamp(1, request.rows.max(1)))
    }

    /// Returns the next batch, or an error that names the column.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        self.next_batch().map_err(|error| {
            self.reader = None;
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
        if self.left == 0 {
            return Ok(None);
        }
        self.listed.store(0, Ordering::Relaxed);
        let columns = match &mut self.reader {
            None => Vec::new(),
            Some(reader) => {
                let next = catch_unwind(AssertUnwindSafe(|| reader.next()))
                    .map_err(|payload| panic_error(payload.as_ref()))?;
                match next {
                    Some(Ok(batch)) => batch.columns().to_vec(),
                    Some(Err(error)) => return Err(read_error(&error.to_string())),
                    None => {
                        return Err(Error::malformed("fewer rows than the footer claims")
                            .found(format!("{} less", self.left)));
                    }
                }
            }
        };
        for (column, field) in columns.iter().zip(self.schema.fields()) {
            text::check(column).map_err(|error| error.column(field.name()))?;
        }
        let expanded = columns.iter().map(|column| ExpandedBytes::of(column));
        // Dictionaries and runs are only forms of compression in Parquet, so decoded values do not
        // share memory.
        self.decoded.bytes += expanded.map(|expanded| expanded.bytes).sum::<u64>();
        (self.count_bytes)(self.decoded)?;
        let rows = columns.first().map_or(self.batch_rows, |column| column.len());
        let rows = rows.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let as_read = columns.iter().zip(self.schema.fields());
        let columns = as_read.map(|(column, field)| interval::decode(column, field.data_type()));
        let columns = columns.collect::<Result<_, _>>();
        let columns = columns.map_err(|error| Error::malformed(one_line(&error.to_string())))?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        let batch = batch.map_err(|error| Error::malformed(one_line(&error.to_string())))?;
        self.left -= rows as u64;
        Ok(Some(batch))
    }

    /// Finds the first unreadable column, because the `parquet` crate does not report which column
    /// it is. Each step of this bisection reads half of the remaining columns, so the search takes
    /// about as long as reading all columns once.
    fn find_bad_column(&self) -> Option<String> {
        let (mut from, mut to) = (0, self.columns.len());
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
        let column = self.columns[from].first().and_then(|&column| self.fields.get(column));
        column.filter(|_| is_bad).map(|column| column.name().clone())
    }

    /// Returns whether these columns are readable and contain all rows of the group.
    fn is_readable(&self, columns: &[FieldPath]) -> bool {
        let Ok(reader) = self.reader(columns, None) else { return false };
        let drained = catch_unwind(AssertUnwindSafe(|| {
            let mut rows = 0;
            for batch in reader {
                rows += batch?.num_rows();
                self.listed.store(0, Ordering::Relaxed);
            }
            Ok::<_, ArrowError>(rows)
        }));
        matches!(drained, Ok(Ok(rows)) if i64::try_from(rows) == Ok(self.pages.group().num_rows()))
    }
}
