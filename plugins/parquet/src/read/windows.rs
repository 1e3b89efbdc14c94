//! Decodes the columns of a row group in groups, for a window of rows at a time. Several threads
//! decode groups. Each group skips to the first row of the window, so its first page is
//! decompressed again for every window. A window consists of whole batches, which are the same as
//! if all columns were decoded at once.

use super::memory::ReservedMemory;
use super::pages::RowGroupPages;
use crate::fault::{catch_panic, panic_error, read_error};
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::arrow_array::{Array, ArrayRef};
use tensorferry_sdk::{Error, Result};

/// Rows of a row group, and the number of rows in a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowBatches {
    pub(super) first_row: u64,
    /// Number of rows.
    pub(super) left: u64,
    pub(super) batch_rows: usize,
}

impl RowBatches {
    /// Opens a decoder of these rows.
    pub(super) fn reader(
        self,
        levels: &FieldLevels,
        pages: &RowGroupPages,
    ) -> Result<ParquetRecordBatchReader> {
        let is_whole = i64::try_from(self.left) == Ok(pages.group().num_rows());
        // Counts that exceed `usize` are clamped.
        let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let selection = (!is_whole).then(|| {
            RowSelection::from(vec![
                RowSelector::skip(count(self.first_row)),
                RowSelector::select(count(self.left)),
            ])
        });
        let open =
            || ParquetRecordBatchReader::try_new_with_row_groups(levels, pages, self.batch_rows, selection);
        catch_panic(open).map_err(|error| pages.first_error.take().unwrap_or(error))
    }
}

/// Decodes the columns of the next batch. Returns `None` if the decoder has no more rows.
pub(super) fn decode(
    reader: &mut ParquetRecordBatchReader,
    pages: &RowGroupPages,
) -> Result<Option<Vec<ArrayRef>>> {
    pages.listed.store(0, Ordering::Relaxed);
    let next = catch_unwind(AssertUnwindSafe(|| reader.next()));
    match next.map_err(|payload| panic_error(payload.as_ref()))? {
        Some(Ok(batch)) => Ok(Some(batch.columns().to_vec())),
        Some(Err(error)) => Err(read_error(&error.to_string())),
        None => Ok(None),
    }
}

/// Columns that are decoded at the same time.
pub(super) struct ColumnGroup {
    /// Indices of the columns' paths.
    pub(super) paths: Range<usize>,
    /// Number of bytes that the decoders need.
    pub(super) memory: u64,
}

/// Distributes columns over groups. `columns` has the paths and the memory of each column.
pub(super) fn groups(columns: impl IntoIterator<Item = (Range<usize>, u64)>, max: u64) -> Vec<ColumnGroup> {
    let mut groups: Vec<ColumnGroup> = Vec::new();
    for (paths, memory) in columns {
        match groups.last_mut() {
            Some(group) if group.memory.saturating_add(memory) <= max => {
                group.paths.end = paths.end;
                group.memory += memory;
            }
            _ => groups.push(ColumnGroup { paths, memory }),
        }
    }
    groups
}

/// The rows of a row group, decoded window by window.
pub(super) struct Windows {
    groups: Vec<(ColumnGroup, FieldLevels)>,
    rows: RowBatches,
    /// Maximum size of a window in bytes. A single batch may be larger.
    max_bytes: u64,
    /// Estimated number of batches in a window.
    batches: usize,
    _held: Option<ReservedMemory>,
    decoded: VecDeque<Vec<ArrayRef>>,
}

impl Windows {
    /// Decodes these groups. `batch_bytes` is the estimated size of a batch.
    pub(super) fn new(
        groups: Vec<(ColumnGroup, FieldLevels)>,
        rows: RowBatches,
        batch_bytes: u64,
        pages: &RowGroupPages,
    ) -> Self {
        let largest = groups.iter().map(|(group, _)| group.memory).max().unwrap_or(0);
        let usual = pages.memory.window(largest);
        // If other streams hold the memory, the window is smaller. The smallest window is one batch.
        let sizes = std::iter::successors(Some(usual), |size| Some(size / 2));
        let mut sizes = sizes.take_while(|&size| size > batch_bytes);
        let held = sizes.find_map(|size| Some((pages.memory.hold(size)?, size)));
        let max_bytes = held.as_ref().map_or(0, |(_, size)| *size);
        let batches = usize::try_from(max_bytes / batch_bytes.max(1)).unwrap_or(usize::MAX).max(1);
        let held = held.map(|(held, _)| held);
        Self { groups, rows, max_bytes, batches, _held: held, decoded: VecDeque::new() }
    }

    /// Returns whether one window probably contains all rows.
    pub(super) fn is_single(&self) -> bool {
        self.rows.left.div_ceil(self.rows.batch_rows as u64) <= self.batches as u64
    }

    /// Returns the columns of the next batch.
    pub(super) fn next(&mut self, pages: &RowGroupPages) -> Result<Vec<ArrayRef>> {
        if self.decoded.is_empty() {
            self.decode(pages)?;
        }
        Ok(self.decoded.pop_front().unwrap_or_default())
    }

    /// Decodes the next window.
    fn decode(&mut self, pages: &RowGroupPages) -> Result<()> {
        let batch_rows = self.rows.batch_rows as u64;
        let count = self.rows.left.div_ceil(batch_rows).min(self.batches as u64);
        let window = Window {
            rows: RowBatches { left: self.rows.left.min(batch_rows * count), ..self.rows },
            max_bytes: self.max_bytes,
            bytes: Mutex::new(vec![0; usize::try_from(count).unwrap_or(usize::MAX)]),
        };
        let next = AtomicUsize::new(0);
        let decode_all = || -> Result<Vec<_>> {
            // The lists of a batch are counted separately on each thread.
            let pages = pages.separate();
            let mut decoded = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(group) = self.groups.get(index) else { return Ok(decoded) };
                let group = window.decode(group, &pages);
                if group.is_err() {
                    // The other threads need not decode the remaining groups.
                    next.store(self.groups.len(), Ordering::Relaxed);
                }
                decoded.push((index, group?));
            }
        };
        let decoded = std::thread::scope(|scope| {
            let others = pages.memory.threads.min(self.groups.len()).saturating_sub(1);
            // If the system does not start a thread, this thread decodes its groups.
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, decode_all).ok();
            let others: Vec<_> = (0..others).filter_map(start).collect();
            let mut decoded = vec![decode_all()];
            let joined = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|payload| Err(panic_error(payload.as_ref()))));
            decoded.extend(joined);
            decoded.into_iter().collect::<Result<Vec<_>>>()
        });
        let mut decoded: Vec<_> = decoded?.into_iter().flatten().collect();
        decoded.sort_unstable_by_key(|(index, _)| *index);
        let len = window.bytes.into_inner().unwrap_or_else(PoisonError::into_inner).len();
        let mut batches = vec![Vec::new(); len];
        for (_, group) in decoded {
            batches.iter_mut().zip(group).for_each(|(batch, columns)| batch.extend(columns));
        }
        let rows = self.rows.left.min(batch_rows * len as u64);
        self.rows =
            RowBatches { first_row: self.rows.first_row + rows, left: self.rows.left - rows, ..self.rows };
        self.decoded = batches.into();
        Ok(())
    }
}

/// A window that is being decoded.
struct Window {
    rows: RowBatches,
    max_bytes: u64,
    /// Number of decoded bytes in each batch. The window ends after these batches.
    bytes: Mutex<Vec<u64>>,
}

impl Window {
    /// Decodes a group of columns. Returns the columns of each batch.
    fn decode(
        &self,
        (group, levels): &(ColumnGroup, FieldLevels),
        pages: &RowGroupPages,
    ) -> Result<Vec<Vec<ArrayRef>>> {
        let _decoding = pages.memory.decode(group.memory)?;
        let mut reader = self.rows.reader(levels, pages)?;
        let (mut batches, mut left) = (Vec::new(), self.rows.left);
        while left > 0 && batches.len() < self.bytes().len() {
            let rows = left.min(self.rows.batch_rows as u64);
            let columns = decode_batch(&mut reader, pages, rows)?;
            left -= rows;
            self.add(batches.len(), columns.iter().map(|column| column.get_array_memory_size() as u64).sum());
            batches.push(columns);
        }
        Ok(batches)
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u64>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds decoded bytes to a batch. Shortens the window if its rows are longer than usual.
    fn add(&self, batch: usize, decoded: u64) {
        let mut bytes = self.bytes();
        if let Some(sum) = bytes.get_mut(batch) {
            *sum += decoded;
            if batch > 0 && bytes.iter().sum::<u64>() > self.max_bytes {
                bytes.truncate(batch);
            }
        }
    }
}

/// Decodes the columns of a batch that has `rows` rows.
fn decode_batch(
    reader: &mut ParquetRecordBatchReader,
    pages: &RowGroupPages,
    rows: u64,
) -> Result<Vec<ArrayRef>> {
    let columns = decode(reader, pages)?.unwrap_or_default();
    let found = columns.first().map_or(0, |column| column.len() as u64);
    if found != rows {
        let missing = rows.saturating_sub(found);
        return Err(Error::malformed("fewer rows than the footer claims").found(format!("{missing} less")));
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::Parquet;
    use std::sync::Arc;
    use tensorferry_sdk::arrow_array::builder::{Int64Builder, ListBuilder};
    use tensorferry_sdk::arrow_array::{Float64Array, RecordBatch, StringArray};
    use tensorferry_sdk::memory::records;
    use tensorferry_sdk::records::{ScanRequest, from_stream};
    use tensorferry_sdk::{ErrorKind, Limits, MemoryContext, MemorySource};
    use tensorferry_test_kit::rows::{rows, write_file};

    const COLUMNS: u32 = 30;
    const ROWS: u32 = 20_000;

    /// Returns a file with one row group whose pages need about 10 MiB.
    fn wide(dictionary: &str) -> Vec<u8> {
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for column in 0..COLUMNS {
            let numbers =
                (0..ROWS).map(|row| (row % 7 != 3).then(|| f64::from(row * COLUMNS + column).sqrt()));
            columns.push((format!("n{column}"), Arc::new(numbers.collect::<Float64Array>())));
        }
        let words = (0..ROWS).map(|row| (row % 5 != 0).then(|| format!("{row:x>8}")));
        columns.push(("words".to_owned(), Arc::new(words.collect::<StringArray>())));
        let mut lists = ListBuilder::new(Int64Builder::new());
        for row in 0..ROWS {
            lists.values().append_slice(&vec![i64::from(row); row as usize % 4]);
            lists.append(row % 11 != 0);
        }
        columns.push(("lists".to_owned(), Arc::new(lists.finish())));
        let columns = columns.iter().map(|(name, column)| (&name[..], column.clone())).collect();
        let options = [("compression", "snappy"), ("dictionary", dictionary)];
        write_file(&Parquet, &[rows(columns)], "in.parquet", &options).unwrap().0
    }

    /// Reads rows with this amount of memory.
    fn read_with(bytes: &[u8], memory: u64, scan: &ScanRequest) -> Result<Vec<RecordBatch>> {
        let mut limits = Limits::default();
        limits.memory_bytes = memory;
        let source = Arc::new(MemorySource::file("in.parquet", bytes));
        let set = records::open(&Parquet, &[], source, &MemoryContext::new(limits))?;
        assert_eq!(set.splits().len(), 1);
        set.scan(0, scan)?.map(|batch| batch.map_err(from_stream)).collect()
    }

    #[test]
    fn columns_that_do_not_fit_together_are_read_in_groups() {
        let part = ScanRequest { first_row: 5_000, limit: Some(9_000), ..ScanRequest::default() };
        let small = ScanRequest { bytes: 64 << 10, ..ScanRequest::default() };
        let some = ScanRequest { columns: Some(vec![vec![2], vec![30], vec![31]]), ..small.clone() };
        for dictionary in ["true", "false"] {
            let bytes = wide(dictionary);
            for scan in [&ScanRequest::default(), &part, &small, &some] {
                let expected = read_with(&bytes, 256 << 20, scan).unwrap();
                for memory in [2 << 20, 4 << 20, 16 << 20] {
                    let found = read_with(&bytes, memory, scan).unwrap();
                    assert!(found == expected, "{dictionary} {scan:?} with {memory} bytes of memory");
                }
            }
        }
    }

    #[test]
    fn a_column_that_does_not_fit_is_a_limit() {
        let bytes = wide("true");
        let error = read_with(&bytes, 256 << 10, &ScanRequest::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let details: Vec<_> = error.details().collect();
        let detail = |name| details.iter().find(|(found, _)| *found == name).map(|(_, text)| text.clone());
        assert!(detail("column").is_some() && detail("found").is_some(), "{error:?}");
        // The memory of the hint suffices for this column. The next column may need a little more.
        let hint = detail("hint").unwrap();
        let mebibytes = hint.strip_prefix("pass --memory ").and_then(|text| text.strip_suffix("MiB"));
        let mebibytes: u64 = mebibytes.unwrap().parse().unwrap();
        read_with(&bytes, (mebibytes + 1) << 20, &ScanRequest::default()).unwrap();
    }

    #[test]
    fn a_group_takes_columns_until_it_is_full() {
        let sizes = [3, 4, 3, 20, 1, 9, 1];
        let columns = sizes.iter().enumerate().map(|(at, &size)| (at..at + 1, size));
        let groups: Vec<_> =
            groups(columns, 10).into_iter().map(|group| (group.paths, group.memory)).collect();
        assert_eq!(groups, [(0..3, 10), (3..4, 20), (4..6, 10), (6..7, 1)]);
    }
}
