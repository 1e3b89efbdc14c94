//! A fault is what is wrong with a frame, and where.

use super::OVERHEAD;
use tensorferry_sdk::Error;

/// What is wrong at an offset.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// Where the record starts, in the bytes of the file once they are decompressed.
    pub(crate) offset: u64,
    /// What is wrong.
    pub(crate) kind: FaultKind,
}

/// What can be wrong with a frame.
#[derive(Debug, Clone)]
pub(crate) enum FaultKind {
    /// The file ends inside a header.
    Tail {
        /// The bytes that are there.
        bytes: u64,
    },
    /// The checksum of the length is wrong.
    Length,
    /// The file ends inside a record.
    Cut {
        /// The length that the header gives.
        length: u64,
        /// The bytes that the file has for the whole frame.
        available: u64,
    },
    /// The checksum of the data is wrong.
    Data {
        /// Where the next record starts.
        next: u64,
    },
    /// The record is longer than what may be held in memory.
    TooLong {
        /// Its length.
        length: u64,
        /// The limit.
        most: u64,
    },
    /// What lies in the frame is not the message that it should be.
    Message {
        /// Why.
        why: String,
        /// Where the next record starts.
        next: u64,
    },
    /// The file cannot be read or decompressed any further.
    Stream(Error),
}

impl Fault {
    /// Where to go on, if the frames after this one can be found.
    pub(crate) fn next(&self) -> Option<u64> {
        match self.kind {
            FaultKind::Data { next } | FaultKind::Message { next, .. } => Some(next),
            FaultKind::TooLong { length, .. } => Some(self.offset + OVERHEAD + length),
            _ => None,
        }
    }

    /// Whether the record is damaged, and not merely beyond what this run may do or what the machine
    /// gave: only damage is ever skipped.
    pub(crate) fn is_damage(&self) -> bool {
        match &self.kind {
            FaultKind::Stream(error) => error.kind() == tensorferry_sdk::ErrorKind::Malformed,
            FaultKind::TooLong { .. } => false,
            _ => true,
        }
    }

    /// What is wrong, for people.
    pub(crate) fn why(&self) -> String {
        match &self.kind {
            FaultKind::Tail { bytes } => {
                format!("the file ends inside a record's header, after {bytes} of 12 bytes")
            }
            FaultKind::Length if self.offset == 0 => {
                "the checksum of the length is wrong: is this a TFRecord file?".to_owned()
            }
            FaultKind::Length => "the checksum of the length is wrong".to_owned(),
            FaultKind::Cut { .. } => "the file ends inside a record".to_owned(),
            FaultKind::Data { .. } => "the checksum of the data is wrong".to_owned(),
            FaultKind::TooLong { .. } => "the record is too long to hold in memory".to_owned(),
            FaultKind::Message { why, .. } => why.clone(),
            FaultKind::Stream(error) => error.message().to_owned(),
        }
    }

    /// The error for the record of that number, counted from 0.
    pub(crate) fn error(self, file: &str, record: u64) -> Error {
        let why = self.why();
        let error = match self.kind {
            FaultKind::Stream(error) => error,
            FaultKind::Cut { length, available } => Error::malformed(why)
                .expected(format!("{} bytes", u128::from(length) + u128::from(OVERHEAD)))
                .found(format!("{available} bytes")),
            FaultKind::TooLong { length, most } => {
                Error::limit(why).expected(format!("at most {most} bytes")).found(format!("{length} bytes"))
            }
            _ => Error::malformed(why),
        };
        error.file(file).record(record).offset(self.offset)
    }
}
