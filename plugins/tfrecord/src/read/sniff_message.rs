//! Guesses whether records are Examples, SequenceExamples or other bytes.
//!
//! The guess is based on a record with features or feature lists, preferably one without unknown
//! fields. An empty record does not determine the type, because it may be a message without
//! features or an empty byte string.

use crate::bytes::Window;
use crate::frame::Frames;
use crate::message::{Fit, MessageKind, fit};

/// Maximum number of records to search for feature lists.
const MAX_RECORDS: usize = 256;
/// Maximum number of bytes to examine in a file.
const MAX_BYTES: u64 = 1 << 20;

/// The guessed type of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageGuess {
    /// No record determines the type.
    NoRecords,
    Message(MessageKind),
    /// The records are messages of this type, and at least one of them has unknown fields.
    UnknownFields(MessageKind),
    Bytes,
}

/// Examines the first records of a file. Returns whether the guess is final.
pub(super) fn try_next<W: Window>(walk: &mut Frames<W>, guess: &mut MessageGuess) -> bool {
    for _ in 0..MAX_RECORDS {
        let Ok(Some(data)) = walk.next() else { break };
        if data.is_empty() {
            continue;
        }
        match of_record(data) {
            Some((MessageKind::Sequence, is_exact)) => {
                *guess = guess.and(MessageKind::Sequence, is_exact);
                return true;
            }
            Some((MessageKind::Example, is_exact)) => *guess = guess.and(MessageKind::Example, is_exact),
            None => {
                // If earlier records are messages, this record is damaged. The reader reports the
                // damage.
                if *guess == MessageGuess::NoRecords {
                    *guess = MessageGuess::Bytes;
                }
                return true;
            }
        }
        if walk.offset() > MAX_BYTES {
            break;
        }
    }
    *guess != MessageGuess::NoRecords
}

impl MessageGuess {
    /// Updates the guess with a record of this type.
    fn and(self, kind: MessageKind, is_exact: bool) -> Self {
        if is_exact && !matches!(self, Self::UnknownFields(_)) {
            Self::Message(kind)
        } else {
            Self::UnknownFields(kind)
        }
    }
}

/// Returns the message type of a record, and whether it has no unknown fields.
fn of_record(record: &[u8]) -> Option<(MessageKind, bool)> {
    let fits = |kind| fit(record, kind).unwrap_or(Fit::No);
    let (example, sequence) = (fits(MessageKind::Example), fits(MessageKind::Sequence));
    // A record that contains feature lists is not an exact Example, because Examples have none.
    let kind = if example == Fit::Exact || sequence == Fit::No {
        MessageKind::Example
    } else {
        MessageKind::Sequence
    };
    match example.max(sequence) {
        Fit::No => None,
        fit => Some((kind, fit == Fit::Exact)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_may_have_other_fields_and_entries_in_any_order() {
        let example = b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x01";
        let turned = b"\x0a\x0c\x0a\x0a\x12\x05\x1a\x03\x0a\x01\x01\x0a\x01a";
        let others = [&example[..], b"\x78\x03\x82\x01\x03xyz"].concat();
        assert_eq!(of_record(example), Some((MessageKind::Example, true)));
        assert_eq!(of_record(turned), Some((MessageKind::Example, true)));
        assert_eq!(of_record(&others), Some((MessageKind::Example, false)));
        for other in [&b"\x0a\x03abc"[..], b"\x0a\x00\x78\x03", b"text", b"\x08\x01"] {
            assert_eq!(of_record(other), None, "{other:?}");
        }
    }
}
