//! State that is shared by the streams of an input. The state outlives the calls that create the
//! streams.

use super::Table;
use super::pieces::Piece;
use crate::bytes::Window;
use crate::files::InputFile;
use crate::frame::{Checks, Frames};
use crate::policy::FaultPolicy;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Error, Limits, Source};

pub(super) struct SharedState {
    pub(super) source: Arc<dyn Source>,
    pub(super) files: Vec<InputFile>,
    pub(super) table: Table,
    pub(super) policy: FaultPolicy,
    pub(super) checks: Checks,
    pub(super) limits: Limits,
    /// Number of features without a kind in each column. The number is not updated if these
    /// features have already been counted.
    pub(super) unset: Mutex<Vec<u64>>,
    pub(super) pieces: Vec<Piece>,
    /// Number of records in each piece. A number is set when a stream reaches the end of the piece
    /// at the expected offset.
    pub(super) counted: Mutex<Vec<Option<u64>>>,
}

impl SharedState {
    /// Returns a walk over the records in a piece.
    pub(super) fn walk(&self, piece: &Piece) -> Frames<Box<dyn Window + Send>> {
        let file = &self.files[piece.file];
        Frames::new(file.codec.window(&self.source, file.id, &self.limits), piece.start, self.checks)
    }

    /// Skips the first records of a piece without checking their data. Returns the number of
    /// skipped records and the offset of the next record. The stream that continues from this
    /// offset reports invalid frames.
    pub(super) fn skip_records(&self, piece: &Piece, records: u64) -> (u64, u64) {
        let file = &self.files[piece.file];
        let window = file.codec.window(&self.source, file.id, &self.limits);
        let mut walk = Frames::new(window, piece.start, Checks { data: false, ..self.checks });
        let mut passed = 0;
        while passed < records && piece.end.is_none_or(|end| walk.offset() < end) {
            match walk.skip() {
                Ok(Some(_)) => passed += 1,
                Ok(None) | Err(_) => break,
            }
        }
        (passed, walk.offset())
    }

    /// Converts an error to a wrong guess if the schema and splits are guessed.
    pub(super) fn as_wrong_guess(&self, error: Error) -> Error {
        if self.is_guess() { Error::wrong_guess(error.to_string()) } else { error }
    }

    fn is_guess(&self) -> bool {
        self.table.decoding.as_ref().is_some_and(|decoding| decoding.is_guess)
    }

    /// Stores the number of records in a piece that has ended at the expected offset.
    pub(super) fn keep_count(&self, piece: &Piece, records: u64) {
        let place =
            self.pieces.iter().position(|other| (other.file, other.start) == (piece.file, piece.start));
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = place.and_then(|place| counted.get_mut(place)) {
            *count = Some(records);
        }
    }

    /// Returns the number of the first record in a piece. If the pieces are guessed, the function
    /// counts the earlier records that no stream has counted. Returns `None` if no record starts at
    /// the guessed offset.
    pub(super) fn first_record(&self, piece: &Piece) -> Option<u64> {
        if !self.is_guess() {
            return Some(piece.first);
        }
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = self.pieces.iter().zip(counted);
        let mut before = before.filter(|(other, _)| other.file == piece.file && other.start < piece.start);
        before.try_fold(0, |first, (other, count)| Some(first + count.or_else(|| self.count(other))?))
    }

    /// Counts the records in a piece. Returns `None` unless the last record ends at the start of
    /// the next piece.
    fn count(&self, piece: &Piece) -> Option<u64> {
        let (file, end) = (&self.files[piece.file], piece.end?);
        let window = file.codec.window(&self.source, file.id, &self.limits);
        let mut walk = Frames::new(window, piece.start, Checks { data: false, ..self.checks });
        let mut records = 0;
        while walk.offset() < end {
            walk.skip().ok()??;
            records += 1;
        }
        (walk.offset() == end).then_some(records)
    }

    /// Adds a stream's counts of features without a kind, which cover some of the columns.
    pub(super) fn count_unset(&self, columns: &[usize], counts: impl Iterator<Item = u64>) {
        let mut unset = self.unset.lock().unwrap_or_else(PoisonError::into_inner);
        for (&column, count) in columns.iter().zip(counts) {
            unset[column] += count;
        }
    }
}
