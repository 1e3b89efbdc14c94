//! What the streams of an input share: they outlive the calls that made them.

use super::Table;
use super::pieces::Piece;
use crate::bytes::Window;
use crate::files::InputFile;
use crate::frame::{Checks, Walk};
use crate::policy::Policy;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Error, Limits, Source};

/// An input as its streams see it.
pub(super) struct Shared {
    pub(super) source: Arc<dyn Source>,
    pub(super) files: Vec<InputFile>,
    pub(super) table: Table,
    pub(super) policy: Policy,
    pub(super) checks: Checks,
    pub(super) limits: Limits,
    /// By column, how many features had no kind, where nobody has counted them before.
    pub(super) unset: Mutex<Vec<u64>>,
    pub(super) pieces: Vec<Piece>,
    /// How many records each piece has, once a stream has come to its end and it ended where it should.
    pub(super) counted: Mutex<Vec<Option<u64>>>,
}

impl Shared {
    /// A walk over the records of a piece.
    pub(super) fn walk(&self, piece: &Piece) -> Walk<Box<dyn Window + Send>> {
        let file = &self.files[piece.file];
        Walk::new(file.codec.window(&self.source, file.id, &self.limits), piece.start, self.checks)
    }

    /// Goes past the first records of a piece, whose data is not looked at: how many they were, and where the next one
    /// begins. What is wrong with the framing is left to whoever reads there.
    pub(super) fn pass_over(&self, piece: &Piece, records: u64) -> (u64, u64) {
        let file = &self.files[piece.file];
        let window = file.codec.window(&self.source, file.id, &self.limits);
        let mut walk = Walk::new(window, piece.start, Checks { data: false, ..self.checks });
        let mut passed = 0;
        while passed < records && piece.end.is_none_or(|end| walk.offset() < end) {
            match walk.skim() {
                Ok(Some(_)) => passed += 1,
                Ok(None) | Err(_) => break,
            }
        }
        (passed, walk.offset())
    }

    /// An error that a wrong guess may be the cause of, where there is one.
    pub(super) fn doubted(&self, error: Error) -> Error {
        if self.is_guess() { Error::wrong_guess(error.to_string()) } else { error }
    }

    fn is_guess(&self) -> bool {
        self.table.decoding.as_ref().is_some_and(|decoding| decoding.is_guess)
    }

    /// Keeps that a piece, which ended where it should, has so many records.
    pub(super) fn keep_count(&self, piece: &Piece, records: u64) {
        let place =
            self.pieces.iter().position(|other| (other.file, other.start) == (piece.file, piece.start));
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = place.and_then(|place| counted.get_mut(place)) {
            *count = Some(records);
        }
    }

    /// The number of a piece's first record; of one that was guessed, if a record begins there. What no stream has
    /// counted yet of the file before it is walked over.
    pub(super) fn first_record(&self, piece: &Piece) -> Option<u64> {
        if !self.is_guess() {
            return Some(piece.first);
        }
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = self.pieces.iter().zip(counted);
        let mut before = before.filter(|(other, _)| other.file == piece.file && other.start < piece.start);
        before.try_fold(0, |first, (other, count)| Some(first + count.or_else(|| self.count(other))?))
    }

    /// How many records a piece has, if it ends where the next one begins.
    fn count(&self, piece: &Piece) -> Option<u64> {
        let (file, end) = (&self.files[piece.file], piece.end?);
        let window = file.codec.window(&self.source, file.id, &self.limits);
        let mut walk = Walk::new(window, piece.start, Checks { data: false, ..self.checks });
        let mut records = 0;
        while walk.offset() < end {
            walk.skim().ok()??;
            records += 1;
        }
        (walk.offset() == end).then_some(records)
    }

    /// Adds what a stream has counted of some columns.
    pub(super) fn count_unset(&self, columns: &[usize], counts: impl Iterator<Item = u64>) {
        let mut unset = self.unset.lock().unwrap_or_else(PoisonError::into_inner);
        for (&column, count) in columns.iter().zip(counts) {
            unset[column] += count;
        }
    }
}
