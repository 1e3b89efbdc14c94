//! Guesses the schema and the splits from a few records here and there, for an input that is read only once.
//!
//! What contradicts the guess is [`Error::wrong_guess`](tensorferry_sdk::Error::wrong_guess) of a stream: a feature that
//! it does not have, one of another kind, one with another number of values than the one that all had; and a split
//! that does not end where the next one was taken to begin. The host reads the input again then, without a guess.
//! A fault past the start of a file, where a split may have begun in the wrong place, is told once the records before it
//! are counted; those of splits that no stream has come to the end of are walked over. So what comes out is what a look at all records first would have given.

use super::pieces::{ABOUT, Piece, WORTH_DIVIDING};
use super::{Decoding, Opened, Opening};
use crate::codec::Codec;
use crate::frame::{OVERHEAD, Walk};
use crate::message::MessageKind;
use crate::profile::Profile;
use crate::scan::{Tally, first_record};
use tensorferry_sdk::{Purpose, Result};

/// How many records of each split are looked at.
const RECORDS: u64 = 32;

impl Opening<'_> {
    /// A table and pieces that may be right; `None`, where a guess is not allowed or tells too little.
    pub(super) fn guessed(&self, message: MessageKind) -> Result<Option<Opened>> {
        // Numbers of records that are left out are for the user to see.
        if !self.context.purpose().has(Purpose::ONCE) || self.policy.skips() {
            return Ok(None);
        }
        let mut profile = Profile::new(message, false, self.context.limits());
        let Some(pieces) = self.likely_pieces(&mut profile)? else { return Ok(None) };
        if !profile.says_all() {
            return Ok(None);
        }
        let Ok(mut table) = self.table_of(&profile, message) else { return Ok(None) };
        // Where every feature has a kind, those without one are all that is lost: they are counted while they are decoded.
        table.losses.clear();
        table.decoding =
            table.decoding.map(|decoding| Decoding { counts_unset: true, is_guess: true, ..decoding });
        Ok(Some(Opened { table, pieces, are_checked: false }))
    }

    /// Pieces that begin where records seem to, and do; `None` at the first one that does not.
    fn likely_pieces(&self, profile: &mut Profile) -> Result<Option<Vec<Piece>>> {
        let mut pieces = Vec::new();
        for (file, input) in self.files.iter().enumerate() {
            let mut last = Piece::whole(file);
            if !self.sample(&last, profile) {
                return Ok(None);
            }
            let can_divide = input.codec == Codec::None && input.len >= WORTH_DIVIDING;
            let mut place = if can_divide { ABOUT } else { input.len };
            while place < input.len {
                self.context.check_cancelled()?;
                if let Some(start) = first_record(&**self.source, input.id, place, input.len)? {
                    pieces.push(Piece { end: Some(start), ..last });
                    last = Piece { start, ..Piece::whole(file) };
                    if !self.sample(&last, profile) {
                        return Ok(None);
                    }
                }
                place += ABOUT;
            }
            pieces.push(last);
        }
        Ok(Some(pieces))
    }

    /// Adds the first records of a piece; whether nothing was wrong with them.
    fn sample(&self, piece: &Piece, profile: &mut Profile) -> bool {
        let mut part = Profile::new(profile.message(), false, self.context.limits());
        let mut walk = Walk::new(self.window(&self.files[piece.file]), piece.start, self.checks);
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
