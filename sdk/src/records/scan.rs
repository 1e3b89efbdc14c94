//! A scan says which rows and columns of a split are wanted.

use super::{Batched, Batches, Comparison, FieldPath, Projection, batches, from_stream};
use arrow_schema::SchemaRef;

/// Which rows and columns of a split a stream reads, and how long its batches are.
///
/// Rows are counted from the split's first one, before any comparison. A reader need not look at what is not asked
/// for: faults in other columns, or in rows before `first_row` and behind the last one, may stay unfound.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// The fields that are wanted, as paths in ascending order of which none begins another; `None`: all columns. A
    /// struct has the fields that are named of it; lists and maps are taken whole.
    pub columns: Option<Vec<FieldPath>>,
    /// The first row that is wanted.
    pub first_row: u64,
    /// How many rows are wanted from there on; `None`: all.
    pub limit: Option<u64>,
    /// What is true of every row that the host goes on with. A reader may leave out rows for which one of these is
    /// not true, none of them, or some; it leaves out no other row.
    pub predicate: Vec<Comparison>,
    /// Rows of one batch, at most.
    pub rows: usize,
    /// Bytes of one batch, roughly; a single row may be longer.
    pub bytes: u64,
}

impl Default for Scan {
    fn default() -> Self {
        Batches::default().into()
    }
}

impl From<Batches> for Scan {
    fn from(Batches { columns, rows, bytes }: Batches) -> Self {
        let columns = columns.map(|columns| columns.into_iter().map(|column| vec![column]).collect());
        Self { columns, first_row: 0, limit: None, predicate: Vec::new(), rows, bytes }
    }
}

impl Scan {
    /// Whole columns that hold all wanted fields, in batches as long as this asks for.
    #[must_use]
    pub fn batches(&self) -> Batches {
        let whole = |paths: &Vec<FieldPath>| {
            let mut columns: Vec<usize> = paths.iter().filter_map(|path| path.first().copied()).collect();
            columns.dedup();
            columns
        };
        Batches { columns: self.columns.as_ref().map(whole), rows: self.rows, bytes: self.bytes }
    }

    /// Whether all rows are wanted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.first_row == 0 && self.limit.is_none() && self.predicate.is_empty()
    }
}

/// What a scan wants of a stream that has its [whole columns](Scan::batches) in all rows of a split, of this schema.
///
/// # Errors
/// A plugin error, for a path that leads nowhere.
pub fn narrowed(stream: Batched, schema: &SchemaRef, scan: &Scan) -> crate::Result<Batched> {
    let rows = sliced(stream, scan.first_row, scan.limit);
    match &scan.columns {
        Some(paths) if paths.iter().any(|path| path.len() > 1) => {
            Projection::new(schema, paths)?.of_whole_columns(rows)
        }
        _ => Ok(rows),
    }
}

/// The rows of a stream from `first_row` on, at most `limit`.
#[must_use]
pub fn sliced(mut stream: Batched, first_row: u64, limit: Option<u64>) -> Batched {
    if first_row == 0 && limit.is_none() {
        return stream;
    }
    let (mut skip, mut left) = (first_row, limit.unwrap_or(u64::MAX));
    batches(stream.schema(), move || {
        let next = if left > 0 { stream.next().transpose().map_err(from_stream)? } else { None };
        // One without rows lets whoever pulls look whether the user ended the run.
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
