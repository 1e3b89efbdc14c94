//! A piece is a group of rows that are encoded together. Rows are collected into pieces, and the
//! pieces are distributed over the files of an output.

use crate::batch_bytes::Measure;
use arrow_array::RecordBatch;
use tensorferry_sdk::arrow_array;
use tensorferry_sdk::records::Group;

pub(super) struct RecordPiece {
    pub(super) place: u64,
    /// The index of the target file, if files are named in advance.
    pub(super) file: usize,
    pub(super) batches: Vec<RecordBatch>,
}

/// The distribution of rows over files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileDistribution {
    /// Each of the `files` files gets an equal, contiguous share of `rows` rows.
    Rows { files: usize, rows: u64 },
    /// The files receive pieces in turn.
    Turns { files: usize },
    /// A new file begins after this many rows, or when the writer begins one. A piece ends at every
    /// position at which a file may end.
    Rolled(u64),
}

impl FileDistribution {
    /// Distributes rows over `files` files, in equal shares if the number of rows is known.
    pub(super) fn over_files(files: usize, rows: Option<u64>) -> Self {
        match rows {
            _ if files == 1 => Self::Rows { files, rows: u64::MAX },
            Some(rows) => Self::Rows { files, rows: rows.div_ceil(files as u64).max(1) },
            None => Self::Turns { files },
        }
    }
}

/// Collects rows into pieces, and assigns a file to each piece.
pub(super) struct PieceCollector {
    run: FileDistribution,
    group: Group,
    /// Whether the size of a group in bytes is a strict limit for pieces of more than one row.
    is_exact: bool,
    measure: Measure,
    /// The index of the current piece's target file, if files are named in advance.
    pub(super) file: usize,
    rows_in_file: u64,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: u64,
    place: u64,
}

impl PieceCollector {
    pub(super) fn new(run: FileDistribution, asked: Group, is_exact: bool, measure: Measure) -> Self {
        let rows = match run {
            // Small pieces are used, so that the lengths of the files are similar.
            FileDistribution::Turns { .. } => asked.rows.min(1024),
            FileDistribution::Rows { .. } | FileDistribution::Rolled(_) => asked.rows,
        };
        let group = Group { rows: rows.max(1), ..asked };
        Self {
            run,
            group,
            is_exact,
            measure,
            file: 0,
            rows_in_file: 0,
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
            place: 0,
        }
    }

    fn rows_of_file(&self) -> u64 {
        match self.run {
            FileDistribution::Rows { rows, .. } | FileDistribution::Rolled(rows) => rows,
            FileDistribution::Turns { .. } => u64::MAX,
        }
    }

    /// Returns how many of a batch's first rows still fit in the current piece, and their size in
    /// bytes. Returns 0 rows if the piece should end before this batch.
    pub(super) fn room(&self, batch: &RecordBatch) -> (usize, u64) {
        let in_file = usize::try_from(self.rows_of_file() - self.rows_in_file).unwrap_or(usize::MAX);
        let rows = (self.group.rows - self.rows).min(in_file).max(1).min(batch.num_rows());
        let bytes_of = |rows| if rows == 0 { 0 } else { (self.measure)(&batch.slice(0, rows)) };
        let bytes = bytes_of(rows);
        let space = self.group.bytes.saturating_sub(self.bytes);
        // If the limit is not strict, a batch that is not larger than a piece is not divided.
        if bytes <= space || !self.is_exact && bytes <= self.group.bytes {
            return (rows, bytes);
        }
        // Binary search: `fit` rows fit, and `over` rows do not.
        let (mut fit, mut over) = (0, rows);
        while over - fit > 1 {
            let middle = fit + (over - fit) / 2;
            if bytes_of(middle) <= space { fit = middle } else { over = middle }
        }
        if self.rows == 0 {
            fit = fit.max(1);
        }
        (fit, bytes_of(fit))
    }

    /// Adds rows that fit in the current piece, as returned by [`room`](Self::room). `bytes` is the
    /// size of the rows. Returns the piece if it is now full.
    pub(super) fn add(&mut self, batch: RecordBatch, bytes: u64) -> Option<RecordPiece> {
        self.rows += batch.num_rows();
        self.rows_in_file += batch.num_rows() as u64;
        self.bytes += bytes;
        self.batches.push(batch);
        let is_full = self.rows >= self.group.rows || self.bytes >= self.group.bytes || self.file_is_full();
        if is_full { self.end() } else { None }
    }

    fn file_is_full(&self) -> bool {
        self.rows_in_file >= self.rows_of_file()
    }

    /// Ends the current piece. Returns the piece if it has at least one row.
    pub(super) fn end(&mut self) -> Option<RecordPiece> {
        if self.batches.is_empty() {
            return None;
        }
        let piece =
            RecordPiece { place: self.place, file: self.file, batches: std::mem::take(&mut self.batches) };
        (self.rows, self.bytes) = (0, 0);
        self.place += 1;
        let file_is_full = self.file_is_full();
        match self.run {
            FileDistribution::Turns { files } => self.file = (self.file + 1) % files,
            FileDistribution::Rows { files, .. } if file_is_full => {
                self.file = (self.file + 1).min(files - 1);
            }
            FileDistribution::Rows { .. } | FileDistribution::Rolled(_) => {}
        }
        if file_is_full {
            self.rows_in_file = 0;
        }
        Some(piece)
    }
}

/// Divides batches into runs of `rows` rows. The last run may have fewer rows.
pub(super) fn divided(batches: &[RecordBatch], rows: usize) -> Vec<Vec<RecordBatch>> {
    let mut runs: Vec<Vec<RecordBatch>> = Vec::new();
    let mut left = 0;
    for batch in batches {
        let mut from = 0;
        while from < batch.num_rows() {
            if left == 0 {
                runs.push(Vec::new());
                left = rows.max(1);
            }
            let taken = left.min(batch.num_rows() - from);
            if let Some(run) = runs.last_mut() {
                run.push(batch.slice(from, taken));
            }
            (from, left) = (from + taken, left - taken);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::batch_bytes::batch_bytes;
    use arrow_array::{ArrayRef, StringArray};
    use std::sync::Arc;

    /// Returns a batch of rows, each of which contains one string. `lengths` contains the lengths
    /// of the strings.
    fn texts(lengths: impl IntoIterator<Item = usize>) -> RecordBatch {
        let texts = StringArray::from_iter_values(lengths.into_iter().map(|len| "x".repeat(len)));
        RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap()
    }

    /// Returns the number of rows in each piece that is collected from these batches.
    fn pieces(batches: &[RecordBatch], bytes: u64, is_exact: bool) -> Vec<usize> {
        let group = Group { rows: 1000, bytes };
        let mut collector =
            PieceCollector::new(FileDistribution::Rolled(u64::MAX), group, is_exact, batch_bytes);
        let mut found = Vec::new();
        for batch in batches {
            let mut rest = batch.clone();
            while rest.num_rows() > 0 {
                let (taken, bytes) = collector.room(&rest);
                let piece = match taken {
                    0 => collector.end(),
                    taken => collector.add(rest.slice(0, taken), bytes),
                };
                rest = rest.slice(taken, rest.num_rows() - taken);
                found.extend(piece);
            }
        }
        found.extend(collector.end());
        found.iter().map(|piece| piece.batches.iter().map(RecordBatch::num_rows).sum()).collect()
    }

    #[test]
    fn a_batch_is_cut_where_a_piece_has_its_bytes() {
        // Each row takes 100 bytes and an offset of 4 bytes. Each run has one more offset.
        let even = [texts([100; 100])];
        assert_eq!(pieces(&even, 1044, true), [10; 10]);
        assert_eq!(pieces(&even, 1044, false), [10; 10]);
        // A row that is too long becomes a separate piece.
        assert_eq!(pieces(&[texts([10, 5000, 10, 5000])], 100, true), [1, 1, 1, 1]);
        // Short rows come first, so the first piece contains more rows.
        let uneven = [texts((0..20).map(|row| if row < 10 { 1 } else { 500 }))];
        assert_eq!(pieces(&uneven, 1100, true), [12, 2, 2, 2, 2]);
        // Small batches are not divided if the limit is not strict.
        let small: Vec<_> = (0..10).map(|_| texts([100; 3])).collect();
        assert_eq!(pieces(&small, 1500, false), [15, 15]);
        assert_eq!(pieces(&small, 1450, false), [15, 15]);
        assert_eq!(pieces(&small, 1450, true), [13, 13, 4]);
    }

    #[test]
    fn runs_are_divided_by_rows_alone() {
        let of = |rows| {
            let runs = divided(&[texts([1; 5]), texts([1; 2])], rows);
            runs.iter().map(|run| run.iter().map(RecordBatch::num_rows).collect()).collect::<Vec<Vec<_>>>()
        };
        assert_eq!(of(3), [vec![3], vec![2, 1], vec![1]]);
        assert_eq!(of(10), [vec![5, 2]]);
    }
}
