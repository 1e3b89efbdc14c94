//! Pieces are what is encoded at once: rows are collected to them, and dealt over the files of an output.

use crate::records::batch_bytes::batch_bytes;
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
    /// The file that the current piece goes to, where files are named in advance.
    pub(super) file: usize,
    rows_in_file: u64,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: u64,
    place: u64,
}

impl PieceCollector {
    pub(super) fn new(run: Run, asked: Group) -> Self {
        let rows = match run {
            // Small enough that the files come out alike.
            Run::Turns { .. } => asked.rows.min(1024),
            Run::Rows { .. } | Run::Rolled(_) => asked.rows,
        };
        let group = Group { rows: rows.max(1), ..asked };
        Self { run, group, file: 0, rows_in_file: 0, batches: Vec::new(), rows: 0, bytes: 0, place: 0 }
    }

    /// Rows of one file.
    fn rows_of_file(&self) -> u64 {
        match self.run {
            Run::Rows { rows, .. } | Run::Rolled(rows) => rows,
            Run::Turns { .. } => u64::MAX,
        }
    }

    /// Rows that the current piece still takes.
    pub(super) fn room(&self) -> usize {
        let in_file = self.rows_of_file() - self.rows_in_file;
        (self.group.rows - self.rows).min(usize::try_from(in_file).unwrap_or(usize::MAX)).max(1)
    }

    pub(super) fn add(&mut self, batch: RecordBatch) -> Option<RecordPiece> {
        self.rows += batch.num_rows();
        self.rows_in_file += batch.num_rows() as u64;
        self.bytes += batch_bytes(&batch);
        self.batches.push(batch);
        let file_is_full = self.rows_in_file >= self.rows_of_file();
        if self.rows < self.group.rows && self.bytes < self.group.bytes && !file_is_full {
            return None;
        }
        let piece = self.end();
        match self.run {
            Run::Turns { files } => self.file = (self.file + 1) % files,
            Run::Rows { files, .. } if file_is_full => self.file = (self.file + 1).min(files - 1),
            Run::Rows { .. } | Run::Rolled(_) => {}
        }
        if file_is_full {
            self.rows_in_file = 0;
        }
        piece
    }

    pub(super) fn end(&mut self) -> Option<RecordPiece> {
        if self.batches.is_empty() {
            return None;
        }
        let piece =
            RecordPiece { place: self.place, file: self.file, batches: std::mem::take(&mut self.batches) };
        (self.rows, self.bytes) = (0, 0);
        self.place += 1;
        Some(piece)
    }
}
