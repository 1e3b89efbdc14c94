//! A scan selects rows and columns of a split.

use super::{Batched, Batches, Comparison, FieldPath, Projection, batches, from_stream};
use arrow_schema::SchemaRef;

/// The rows and columns of a split that a stream reads, and the length of its batches.
///
/// Rows are counted from the first row of the split, before any comparison. A reader need not look
/// at data that is not requested. Errors in other columns, in rows before `first_row` and in rows
/// after the last requested one may go unnoticed.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanRequest {
    /// Requested fields, as paths in ascending order, none of which is a prefix of another; `None`
    /// means all columns. A struct is reduced to its requested fields. Lists and maps are taken
    /// whole.
    pub columns: Option<Vec<FieldPath>>,
    /// First requested row.
    pub first_row: u64,
    /// Maximum number of rows, starting at `first_row`; `None` means all.
    pub limit: Option<u64>,
    /// Comparisons that are true of every row that the host keeps. A reader may leave out any rows
    /// for which one of these is false, but no other rows.
    pub predicate: Vec<Comparison>,
    /// Maximum rows of one batch.
    pub rows: usize,
    /// Approximate bytes of one batch; a single row may be longer.
    pub bytes: u64,
}

impl Default for ScanRequest {
    fn default() -> Self {
        Batches::default().into()
    }
}

impl From<Batches> for ScanRequest {
    fn from(Batches { columns, rows, bytes }: Batches) -> Self {
        let columns = columns.map(|columns| columns.into_iter().map(|column| vec![column]).collect());
        Self { columns, first_row: 0, limit: None, predicate: Vec::new(), rows, bytes }
    }
}

impl ScanRequest {
    /// Returns a request for the whole columns that contain all requested fields, with the same
    /// batch length.
    #[must_use]
    pub fn batches(&self) -> Batches {
        let whole = |paths: &Vec<FieldPath>| {
            let mut columns: Vec<usize> = paths.iter().filter_map(|path| path.first().copied()).collect();
            columns.dedup();
            columns
        };
        Batches { columns: self.columns.as_ref().map(whole), rows: self.rows, bytes: self.bytes }
    }

    /// Returns whether all rows are requested.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.first_row == 0 && self.limit.is_none() && self.predicate.is_empty()
    }
}

/// Reduces a stream to the rows and fields of a scan. The stream has all rows of a split in the
/// [whole columns](ScanRequest::batches) of the scan; `schema` is that of the set.
///
/// # Errors
/// Returns a plugin error if a path does not lead to a field.
pub fn narrowed(stream: Batched, schema: &SchemaRef, scan: &ScanRequest) -> crate::Result<Batched> {
    let rows = sliced(stream, scan.first_row, scan.limit);
    match &scan.columns {
        Some(paths) if paths.iter().any(|path| path.len() > 1) => {
            Projection::new(schema, paths)?.of_whole_columns(rows)
        }
        _ => Ok(rows),
    }
}

/// Returns at most `limit` rows of a stream, starting at `first_row`.
#[must_use]
pub fn sliced(mut stream: Batched, first_row: u64, limit: Option<u64>) -> Batched {
    if first_row == 0 && limit.is_none() {
        return stream;
    }
    let (mut skip, mut left) = (first_row, limit.unwrap_or(u64::MAX));
    batches(stream.schema(), move || {
        let next = if left > 0 { stream.next().transpose().map_err(from_stream)? } else { None };
        // A batch may be empty here, so that the caller can check for cancellation.
        Ok(next.map(|batch| {
            let rows = batch.num_rows();
            let from = usize::try_from(skip).unwrap_or(usize::MAX).min(rows);
            skip -= from as u64;
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rows - from);
            left -= taken as u64;
            if taken == rows { batch } else { batch.slice(from, taken) }
        }))
    })
}
