//! Pieces are what is encoded at once: rows are collected to them, and dealt over the files of an output.

use crate::batch_bytes::Measure;
use arrow_array::RecordBatch;
use tensorferry_sdk::arrow_array;
use tensorferry_sdk::records::Group;

/// Rows that become one piece.
pub(super) struct RecordPiece {
    pub(super) place: u64,
    /// The file that they go to, where files are named in advance.
    pub(super) file: usize,
    pub(super) batches: Vec<RecordBatch>,
}

/// Which file rows go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// The first of so many files gets so many rows, then the next one.
    Rows { files: usize, rows: u64 },
    /// So many files get pieces by turns.
    Turns { files: usize },
    /// One file follows the other, after so many rows or whenever the writer begins one: a piece ends where a file may.
    Rolled(u64),
}

impl Run {
    /// Over so many files, which get as many rows each where it is known how many there are.
    pub(super) fn dealt(files: usize, rows: Option<u64>) -> Self {
        match rows {
            _ if files == 1 => Self::Rows { files, rows: u64::MAX },
            Some(rows) => Self::Rows { files, rows: rows.div_ceil(files as u64).max(1) },
            None => Self::Turns { files },
        }
    }
}

/// Collects rows to pieces, and says which file each goes to.
pub(super) struct PieceCollector {
    run: Run,
    group: Group,
    /// Whether a piece may have no more bytes than the group, unless it is one row.
    is_exact: bool,
    measure: Measure,
    /// The file that the current piece goes to, where files are named in advance.
    pub(super) file: usize,
    rows_in_file: u64,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: u64,
    place: u64,
}

impl PieceCollector {
    pub(super) fn new(run: Run, asked: Group, is_exact: bool, measure: Measure) -> Self {
        let rows = match run {
            // Small enough that the files come out alike.
            Run::Turns { .. } => asked.rows.min(1024),
            Run::Rows { .. } | Run::Rolled(_) => asked.rows,
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

    /// Rows of one file.
    fn rows_of_file(&self) -> u64 {
        match self.run {
            Run::Rows { rows, .. } | Run::Rolled(rows) => rows,
            Run::Turns { .. } => u64::MAX,
        }
    }

    /// How many of a batch's first rows the current piece still takes, and their bytes. None, if it is better ended
    /// before them.
    pub(super) fn room(&self, batch: &RecordBatch) -> (usize, u64) {
        let in_file = usize::try_from(self.rows_of_file() - self.rows_in_file).unwrap_or(usize::MAX);
        let rows = (self.group.rows - self.rows).min(in_file).max(1).min(batch.num_rows());
        let bytes_of = |rows| if rows == 0 { 0 } else { (self.measure)(&batch.slice(0, rows)) };
        let bytes = bytes_of(rows);
        let space = self.group.bytes.saturating_sub(self.bytes);
        // Batches that are no longer than a piece stay whole where nothing depends on a little more.
        if bytes <= space || !self.is_exact && bytes <= self.group.bytes {
            return (rows, bytes);
        }
        // So many fit, and so many do not.
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

    /// Adds rows for which there is [`room`](Self::room), and of how many bytes; the piece that is full with them.
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

    /// The piece as it is, if it has a row; the next one follows it.
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
            Run::Turns { files } => self.file = (self.file + 1) % files,
            Run::Rows { files, .. } if file_is_full => self.file = (self.file + 1).min(files - 1),
            Run::Rows { .. } | Run::Rolled(_) => {}
        }
        if file_is_full {
            self.rows_in_file = 0;
        }
        Some(piece)
    }
}

/// Runs of so many rows, the last one of what is left.
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

    /// Rows of a text each, so long.
    fn texts(lengths: impl IntoIterator<Item = usize>) -> RecordBatch {
        let texts = StringArray::from_iter_values(lengths.into_iter().map(|len| "x".repeat(len)));
        RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap()
    }

    /// The rows of each piece that batches become.
    fn pieces(batches: &[RecordBatch], bytes: u64, is_exact: bool) -> Vec<usize> {
        let group = Group { rows: 1000, bytes };
        let mut collector = PieceCollector::new(Run::Rolled(u64::MAX), group, is_exact, batch_bytes);
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
        // 100 bytes and a place of 4; one place more in each run.
        let even = [texts([100; 100])];
        assert_eq!(pieces(&even, 1044, true), [10; 10]);
        assert_eq!(pieces(&even, 1044, false), [10; 10]);
        // A row that is too long is a piece.
        assert_eq!(pieces(&[texts([10, 5000, 10, 5000])], 100, true), [1, 1, 1, 1]);
        // Where the first rows are short, more of them fit.
        let uneven = [texts((0..20).map(|row| if row < 10 { 1 } else { 500 }))];
        assert_eq!(pieces(&uneven, 1100, true), [12, 2, 2, 2, 2]);
        // Small batches stay whole where that is allowed.
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
