//! Guesses the schema and the splits from a few sampled records, for an input that is read only
//! once.
//!
//! If a record contradicts the guess, the stream returns
//! [`Error::wrong_guess`](tensorferry_sdk::Error::wrong_guess), and the host reads the input again
//! without guessing. A contradiction is one of the following:
//!
//! - an unknown feature
//! - a feature of a different kind
//! - a different number of values in a feature, if all samples had the same number
//! - a split that does not end at the guessed start of the next split
//!
//! A fault in a split may be the result of a wrongly guessed start. Before a stream reports the
//! fault, it counts all earlier records of the file, by reading the splits that no stream has
//! completed. Errors are therefore the same as if all records had been read first.

use super::pieces::{MIN_DIVIDED_LEN, Piece, TARGET_PIECE_LEN};
use super::{Decoding, OpenRequest, OpenResult};
use crate::codec::Codec;
use crate::frame::{Frames, OVERHEAD};
use crate::message::MessageKind;
use crate::profile::Profile;
use crate::scan::{Tally, first_record};
use tensorferry_sdk::{Purpose, Result};

/// Number of records to sample from each split.
const RECORDS: u64 = 32;

impl OpenRequest<'_> {
    /// Returns a guessed table and pieces. Returns `None` if guessing is not allowed or if the
    /// samples are insufficient.
    pub(super) fn open_guessed(&self, message: MessageKind) -> Result<Option<OpenResult>> {
        // If damaged records are skipped, the user sees the number of skipped records, so it must
        // be exact.
        if !self.context.purpose().has(Purpose::ONCE) || self.policy.skips() {
            return Ok(None);
        }
        let mut profile = Profile::new(message, false, self.context.limits());
        let Some(pieces) = self.likely_pieces(&mut profile)? else { return Ok(None) };
        if !profile.all_kinds_known() {
            return Ok(None);
        }
        let Ok(mut table) = self.table_of(&profile, message) else { return Ok(None) };
        // All features have a kind, so a loss can result only from individual records in which a
        // feature has no kind. Decoding counts such features.
        table.losses.clear();
        table.decoding =
            table.decoding.map(|decoding| Decoding { counts_unset: true, is_guess: true, ..decoding });
        Ok(Some(OpenResult { table, pieces, are_checked: false }))
    }

    /// Returns pieces that start at likely record boundaries, or `None` if a sampled record is
    /// invalid.
    fn likely_pieces(&self, profile: &mut Profile) -> Result<Option<Vec<Piece>>> {
        let mut pieces = Vec::new();
        for (file, input) in self.files.iter().enumerate() {
            let mut last = Piece::whole(file);
            if !self.sample(&last, profile) {
                return Ok(None);
            }
            let can_divide = input.codec == Codec::None && input.len >= MIN_DIVIDED_LEN;
            let mut place = if can_divide { TARGET_PIECE_LEN } else { input.len };
            while place < input.len {
                self.context.check_cancelled()?;
                if let Some(start) = first_record(&**self.source, input.id, place, input.len)? {
                    pieces.push(Piece { end: Some(start), ..last });
                    last = Piece { start, ..Piece::whole(file) };
                    if !self.sample(&last, profile) {
                        return Ok(None);
                    }
                }
                place += TARGET_PIECE_LEN;
            }
            pieces.push(last);
        }
        Ok(Some(pieces))
    }

    /// Adds the first records of a piece to the profile. Returns whether all of these records were
    /// valid.
    fn sample(&self, piece: &Piece, profile: &mut Profile) -> bool {
        let mut part = Profile::new(profile.message(), false, self.context.limits());
        let mut walk = Frames::new(self.window(&self.files[piece.file]), piece.start, self.checks);
        for number in 0..RECORDS {
            let offset = walk.offset();
            match walk.next() {
                Ok(Some(data)) => {
                    let whole = data.len() as u64 + OVERHEAD;
                    if part.record(number, offset, data, whole).is_err() {
                        return false;
                    }
                }
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        profile.append(&part, piece.file, piece.first).is_ok()
    }
}
