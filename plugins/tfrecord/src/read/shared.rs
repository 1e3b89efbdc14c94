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
}

impl Shared {
    /// A walk over the records of a piece.
    pub(super) fn walk(&self, piece: &Piece) -> Walk<Box<dyn Window + Send>> {
        let file = &self.files[piece.file];
        Walk::new(file.codec.window(&self.source, file.id, &self.limits), piece.start, self.checks)
    }

    /// An error that a wrong guess may be the cause of, where there is one.
    pub(super) fn doubted(&self, error: Error) -> Error {
        let is_guess = self.table.decoding.as_ref().is_some_and(|decoding| decoding.is_guess);
        if is_guess { Error::guess(error.to_string()) } else { error }
    }

    /// Adds what a stream has counted of some columns.
    pub(super) fn count_unset(&self, columns: &[usize], counts: impl Iterator<Item = u64>) {
        let mut unset = self.unset.lock().unwrap_or_else(PoisonError::into_inner);
        for (&column, count) in columns.iter().zip(counts) {
            unset[column] += count;
        }
    }
}
