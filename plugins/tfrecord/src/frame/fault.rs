//! A fault describes a defect in a frame and its position.

use super::OVERHEAD;
use tensorferry_sdk::Error;

#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// The offset of the record in the decompressed bytes of the file.
    pub(crate) offset: u64,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone)]
pub(crate) enum FaultKind {
    /// The file ends inside a header.
    TruncatedHeader {
        /// The number of bytes in the incomplete header.
        bytes: u64,
    },
    /// The checksum does not match the length.
    Length,
    /// The file ends inside a record or its checksum.
    Truncated {
        /// The length of the data, as the header specifies it.
        length: u64,
        /// The number of bytes from the start of the frame to the end of the file.
        available: u64,
    },
    /// The checksum does not match the data.
    Data {
        /// The offset of the next record.
        next: u64,
    },
    /// The record is longer than the memory limit.
    TooLong { length: u64, max: u64 },
    /// The frame does not contain the expected message.
    Message {
        why: String,
        /// The offset of the next record.
        next: u64,
    },
    /// The rest of the file cannot be read or decompressed.
    Stream(Error),
}

impl Fault {
    /// Returns the offset of the next frame, if it is known.
    pub(crate) fn next(&self) -> Option<u64> {
        match self.kind {
            FaultKind::Data { next } | FaultKind::Message { next, .. } => Some(next),
            FaultKind::TooLong { length, .. } => Some(self.offset + OVERHEAD + length),
            _ => None,
        }
    }

    /// Returns whether the record itself is damaged. A record that exceeds a limit or cannot be
    /// read is not considered damaged. Only damaged records are skipped.
    pub(crate) fn is_damage(&self) -> bool {
        match &self.kind {
            FaultKind::Stream(error) => error.kind() == tensorferry_sdk::ErrorKind::Malformed,
            FaultKind::TooLong { .. } => false,
            _ => true,
        }
    }

    /// Describes the fault for users.
    pub(crate) fn why(&self) -> String {
        match &self.kind {
            FaultKind::TruncatedHeader { bytes } => {
                format!("the file ends inside the header of a record, after {bytes} of 12 bytes")
            }
            FaultKind::Length if self.offset == 0 => {
                "the checksum of the first length does not match; this may not be a TFRecord file".to_owned()
            }
            FaultKind::Length => "the checksum of the length does not match".to_owned(),
            FaultKind::Truncated { .. } => "the file ends inside a record".to_owned(),
            FaultKind::Data { .. } => "the checksum of the data does not match".to_owned(),
            FaultKind::TooLong { .. } => "the record is too long to hold in memory".to_owned(),
            FaultKind::Message { why, .. } => why.clone(),
            FaultKind::Stream(error) => error.message().to_owned(),
        }
    }

    /// Returns the error for the record with this number, counted from 0.
    pub(crate) fn error(self, file: &str, record: u64) -> Error {
        let why = self.why();
        let error = match self.kind {
            FaultKind::Stream(error) => error,
            FaultKind::Truncated { length, available } => Error::malformed(why)
                .expected(format!("{} bytes", u128::from(length) + u128::from(OVERHEAD)))
                .found(format!("{available} bytes")),
            FaultKind::TooLong { length, max } => {
                let error = Error::limit(why).expected(format!("at most {max} bytes"));
                error.found(format!("{length} bytes")).hint("raise the limit with --limit header_bytes=N")
            }
            _ => Error::malformed(why),
        };
        error.file(file).record(record).offset(self.offset)
    }
}
