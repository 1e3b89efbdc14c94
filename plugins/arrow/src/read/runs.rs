//! The runs of a run-end encoded column, in the order of rows.

use std::sync::Arc;
use tensorferry_sdk::arrow_array::{ArrayRef, Int16Array, Int32Array, Int64Array};
use tensorferry_sdk::arrow_schema::{DataType, Field};
use tensorferry_sdk::{Error, Result};

/// Number of runs that are read at a time.
const READ: u64 = 4096;

/// The runs from the first row of a slice onward. Slices follow each other, so that the ends of
/// earlier runs are not read again.
#[derive(Default)]
pub(super) struct RunCursor {
    /// Number of the first run, and the row at which it starts.
    run: u64,
    row: u64,
    /// Ends of the first run and of the following runs.
    ends: Vec<i64>,
}

impl RunCursor {
    /// Returns the number of the first run that contains a row of a range, and the number of such
    /// runs. `read` returns the ends of a range of the column's `all` runs.
    pub(super) fn seek(
        &mut self,
        (start, len): (u64, u64),
        all: u64,
        mut read: impl FnMut(u64, u64) -> Result<Vec<i64>>,
    ) -> Result<(u64, u64)> {
        if self.row > start {
            *self = Self::default();
        }
        let end = start.saturating_add(len);
        loop {
            let before = self.ends.iter().take_while(|run| row(**run) <= start).count();
            if let Some(last) = before.checked_sub(1) {
                self.row = row(self.ends[last]);
                self.run += before as u64;
                self.ends.drain(..before);
            }
            if let Some(count) = self.ends.iter().position(|run| row(*run) >= end) {
                return Ok((self.run, count as u64 + 1));
            }
            let known = self.run + self.ends.len() as u64;
            let more = READ.min(all.saturating_sub(known));
            if more == 0 {
                return Err(Error::malformed("the runs of a column end before its last row")
                    .expected(format!("at least {end} rows"))
                    .found(self.ends.last().copied().unwrap_or(0)));
            }
            self.ends.extend(read(known, more)?);
        }
    }

    /// Returns the ends of the first `count` runs as a column of the field's type, for a slice of
    /// rows.
    pub(super) fn clipped(&self, field: &Field, start: u64, len: u64, count: u64) -> ArrayRef {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.ends.len());
        let ends = self.ends[..count].iter().map(|run| row(*run).saturating_sub(start).min(len));
        // The ends do not exceed the ends in the file, which have the same type.
        match field.data_type() {
            DataType::Int16 => {
                Arc::new(Int16Array::from_iter_values(ends.map(|end| i16::try_from(end).unwrap_or(0))))
            }
            DataType::Int32 => {
                Arc::new(Int32Array::from_iter_values(ends.map(|end| i32::try_from(end).unwrap_or(0))))
            }
            _ => Arc::new(Int64Array::from_iter_values(ends.map(|end| i64::try_from(end).unwrap_or(0)))),
        }
    }
}

/// Returns the row at which a run ends. Negative ends are malformed, and are rejected when the
/// array is built.
fn row(end: i64) -> u64 {
    u64::try_from(end).unwrap_or(0)
}
