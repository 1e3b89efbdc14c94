//! Guesses what records are: Examples, SequenceExamples, or other bytes.
//!
//! A record that has features or lists of them, and no field that these messages do not have, decides.
//! Other messages happen to fit, down to their names, but for their other fields. A record without a
//! byte decides nothing: it is a message without features as well as no bytes.

use crate::bytes::Window;
use crate::frame::Walk;
use crate::message::{MessageKind, is_exactly};

/// How many records are looked at for one that has lists of features.
const MOST_RECORDS: usize = 256;
/// How far into a file is looked.
const MOST_BYTES: u64 = 1 << 20;

/// What records seem to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageGuess {
    /// There is none that tells.
    NoRecords,
    /// Messages of this kind.
    Message(MessageKind),
    /// Anything.
    Bytes,
}

/// Looks at the first records of a file; whether no other file has to be looked at.
pub(super) fn look<W: Window>(walk: &mut Walk<W>, guess: &mut MessageGuess) -> bool {
    for _ in 0..MOST_RECORDS {
        let Ok(Some(data)) = walk.next() else { break };
        if data.is_empty() {
            continue;
        }
        match of_record(data) {
            Some(MessageKind::Sequence) => {
                *guess = MessageGuess::Message(MessageKind::Sequence);
                return true;
            }
            Some(MessageKind::Example) => *guess = MessageGuess::Message(MessageKind::Example),
            None => {
                // After a message this is damage, which the reader tells of.
                if *guess == MessageGuess::NoRecords {
                    *guess = MessageGuess::Bytes;
                }
                return true;
            }
        }
        if walk.offset() > MOST_BYTES {
            break;
        }
    }
    *guess != MessageGuess::NoRecords
}

/// What a record is.
fn of_record(record: &[u8]) -> Option<MessageKind> {
    if is_exactly(record, MessageKind::Example) == Ok(true) {
        return Some(MessageKind::Example);
    }
    (is_exactly(record, MessageKind::Sequence) == Ok(true)).then_some(MessageKind::Sequence)
}
