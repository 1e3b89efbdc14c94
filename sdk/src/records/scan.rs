//! A scan selects rows and columns of a split.

use super::{BatchStream, Batches, Comparison, FieldPath, Projection, batches, from_stream};
use arrow_schema::SchemaRef;

/// The rows and columns that a stream reads from a split, and the size of its batches.
///
/// Rows are counted from the first row of the split, before any comparison. A reader does not need
/// to read data that is not requested. The reader may therefore miss errors in other columns, in
/// rows before `first_row` and in rows after the last requested row.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanRequest {
    /// Requested fields, as paths in ascending order. No path may be a prefix of another path.
    /// `None` means all columns. A struct is reduced to its requested fields. Lists and maps are
    /// always complete.
    pub columns: Option<Vec<FieldPath>>,
    /// Number of the first requested row.
    pub first_row: u64,
    /// Maximum number of rows, starting at `first_row`. `None` means all rows.
    pub limit: Option<u64>,
    /// Comparisons that must all be true for the host to keep a row. A reader may omit rows for
    /// which a comparison is false, but no other rows.
    pub predicate: Vec<Comparison>,
    /// Maximum number of rows in a batch.
    pub rows: usize,
    /// Approximate size of a batch in bytes. A single row may be larger.
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
    /// Returns a request with the same batch size for the whole columns that contain the requested
    /// fields.
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

/// Reduces a stream to the rows and fields of a scan. The stream must contain all rows of a split,
/// in the [whole columns](ScanRequest::batches) of the scan. `schema` is the schema of the set.
///
/// # Errors
/// Returns a plugin error if a path does not lead to a field.
pub fn narrowed(stream: BatchStream, schema: &SchemaRef, scan: &ScanRequest) -> crate::Result<BatchStream> {
    let rows = sliced(stream, scan.first_row, scan.limit);
    match &scan.columns {
        Some(paths) if paths.iter().any(|path| path.len() > 1) => {
            Projection::new(schema, paths)?.of_whole_columns(rows)
        }
        _ => Ok(rows),
    }
}

/// Returns up to `limit` rows of a stream, starting at `first_row`.
#[must_use]
pub fn sliced(mut stream: BatchStream, first_row: u64, limit: Option<u64>) -> BatchStream {
    if first_row == 0 && limit.is_none() {
        return stream;
    }
    let (mut skip, mut left) = (first_row, limit.unwrap_or(u64::MAX));
    batches(stream.schema(), move || {
        let next = if left > 0 { stream.next().transpose().map_err(from_stream)? } else { None };
        // An empty batch is returned as well, so that the caller can check for cancellation between
        // batches.
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
