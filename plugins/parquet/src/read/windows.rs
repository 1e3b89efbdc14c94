//! Decodes the columns of a row group in groups, for a window of rows at a time. Each group skips
//! to the first row of the window, so its first page is decompressed again for every window. A
//! window consists of whole batches, which are the same as if all columns were decoded at once.

use super::memory::ReservedMemory;
use super::pages::RowGroupPages;
use crate::fault::{catch_panic, panic_error, read_error};
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
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
        let mut window = vec![Vec::new(); usize::try_from(count).unwrap_or(usize::MAX)];
        let mut bytes = vec![0; window.len()];
        for (group, levels) in &self.groups {
            let _decoding = pages.memory.decode(group.memory)?;
            let rows = self.rows.left.min(batch_rows * window.len() as u64);
            let mut reader = RowBatches { left: rows, ..self.rows }.reader(levels, pages)?;
            let mut left = rows;
            for batch in 0..window.len() {
                let columns = decode_batch(&mut reader, pages, left.min(batch_rows))?;
                left -= left.min(batch_rows);
                bytes[batch] +=
                    columns.iter().map(|column| column.get_array_memory_size() as u64).sum::<u64>();
                window[batch].extend(columns);
                // The rows of this window are longer than usual.
                if batch > 0 && bytes.iter().sum::<u64>() > self.max_bytes {
                    window.truncate(batch);
                    bytes.truncate(batch);
                    break;
                }
            }
        }
        let rows = self.rows.left.min(batch_rows * window.len() as u64);
        self.rows =
            RowBatches { first_row: self.rows.first_row + rows, left: self.rows.left - rows, ..self.rows };
        self.decoded = window.into();
        Ok(())
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
    use super::*;

    #[test]
    fn a_group_takes_columns_until_it_is_full() {
        let sizes = [3, 4, 3, 20, 1, 9, 1];
        let columns = sizes.iter().enumerate().map(|(at, &size)| (at..at + 1, size));
        let groups: Vec<_> =
            groups(columns, 10).into_iter().map(|group| (group.paths, group.memory)).collect();
        assert_eq!(groups, [(0..3, 10), (3..4, 20), (4..6, 10), (6..7, 1)]);
    }
}
