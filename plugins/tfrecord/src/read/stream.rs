//! Returns the rows of a split in batches, in order.

use super::Decoding;
use super::pieces::Piece;
use super::shared::SharedState;
use crate::bytes::Window;
use crate::columns::{RowError, Rows};
use crate::frame::{Fault, FaultKind, Frames};
use crate::scan::message_broken;
use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tensorferry_sdk::records::{BatchStream, Batches, batches};
use tensorferry_sdk::{Error, Result};

/// Decodes the records of a piece.
pub(super) struct RowStream {
    shared: Arc<SharedState>,
    piece: Piece,
    walk: Frames<Box<dyn Window + Send>>,
    /// The number of the next record in the file.
    number: u64,
    batch: Batch,
    /// The decoded columns.
    columns: Vec<usize>,
    max_rows: usize,
    max_bytes: u64,
    /// Number of requested rows that have not been decoded yet.
    left: u64,
    /// Whether all rows have been returned. Only the error in `failed` may remain.
    ended: bool,
    failed: Option<Error>,
}

/// The rows that have been decoded but not yet returned.
enum Batch {
    Decoded(Box<Rows>),
    Raw(RawRows),
}

impl RowStream {
    /// Opens a stream of at most `limit` rows. The stream starts at record number `first_row` of
    /// the piece. Each earlier record therefore counts as a row.
    pub(super) fn open(
        shared: Arc<SharedState>,
        piece: Piece,
        request: &Batches,
        first_row: u64,
        limit: Option<u64>,
    ) -> BatchStream {
        let all = || (0..shared.table.schema.fields().len()).collect();
        let columns: Vec<usize> = request.columns.clone().unwrap_or_else(all);
        let schema = shared.table.projected(&columns);
        let batch = match &shared.table.decoding {
            Some(Decoding { message, columns: all, is_closed, .. }) => {
                Batch::Decoded(Box::new(Rows::new(all, &columns, schema.clone(), *message, *is_closed)))
            }
            None => Batch::Raw(RawRows { schema: schema.clone(), data: Vec::new(), ends: vec![0] }),
        };
        let (skipped, offset) = shared.skip_records(&piece, first_row);
        let mut walk = shared.walk(&piece);
        walk.go_to(offset);
        let mut stream = Self {
            number: piece.first + skipped,
            walk,
            piece,
            shared,
            batch,
            columns,
            max_rows: request.rows.max(1),
            max_bytes: request.bytes.max(1),
            left: limit.unwrap_or(u64::MAX),
            ended: false,
            failed: None,
        };
        batches(schema, move || stream.next_batch())
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if !self.ended {
            self.failed = self.fill().err();
            self.ended |= self.failed.is_some();
        }
        // The rows before an error are returned first.
        if self.batch.len() > 0 {
            let batch = self.finish_batch();
            self.ended |= batch.is_err();
            return batch.map(Some);
        }
        self.failed.take().map_or(Ok(None), Err)
    }

    /// Decodes records until the batch is full or the piece ends.
    fn fill(&mut self) -> Result<()> {
        let Self { shared, piece, walk, number, batch, .. } = self;
        let file = &shared.files[piece.file];
        while batch.len() < self.max_rows && batch.bytes() < self.max_bytes {
            if self.left == 0 {
                self.ended = true;
                return Ok(());
            }
            if let Some(end) = piece.end
                && walk.offset() >= end
            {
                self.ended = true;
                at_end(walk.offset(), end, &file.name).map_err(|error| shared.as_wrong_guess(error))?;
                shared.keep_count(piece, *number - piece.first);
                return Ok(());
            }
            let offset = walk.offset();
            let fault = match walk.next() {
                Ok(None) => {
                    self.ended = true;
                    return match piece.end {
                        Some(end) => {
                            at_end(offset, end, &file.name).map_err(|error| shared.as_wrong_guess(error))
                        }
                        None => Ok(()),
                    };
                }
                Ok(Some(data)) => {
                    let length = data.len();
                    if batch.is_full_for(length) {
                        walk.go_to(offset);
                        return Ok(());
                    }
                    match batch.push(data, *number, offset) {
                        Ok(()) => {
                            self.left -= 1;
                            None
                        }
                        Err(RowError::Wire(broken)) => {
                            let next = walk.offset();
                            let kind = FaultKind::Message { why: message_broken(broken), next };
                            Some(Fault { offset, kind })
                        }
                        Err(RowError::Contradiction { error, .. }) => {
                            return Err(shared.as_wrong_guess(placed(error, &file.name, *number, offset)));
                        }
                    }
                }
                Err(fault) => Some(fault),
            };
            if let Some(fault) = fault {
                let first = shared.first_record(piece);
                let record = first.unwrap_or(piece.first) + *number - piece.first;
                let passed = shared.policy.handle_and_skip(walk, piece.file, &file.name, record, fault);
                let passed = passed.map_err(|error| match first {
                    Some(_) => error,
                    None => shared.as_wrong_guess(error),
                });
                if !passed? {
                    self.ended = true;
                    return Ok(());
                }
            }
            *number += 1;
        }
        Ok(())
    }

    fn finish_batch(&mut self) -> Result<RecordBatch> {
        let shared = &self.shared;
        let name = &shared.files[self.piece.file].name;
        match &mut self.batch {
            Batch::Raw(rows) => rows.finish(),
            Batch::Decoded(rows) => rows.finish().map_err(|error| {
                shared.as_wrong_guess(match error {
                    RowError::Contradiction { error, record: Some((number, offset)) } => {
                        placed(error, name, number, offset)
                    }
                    RowError::Contradiction { error, record: None } => error.file(name),
                    RowError::Wire(broken) => Error::malformed(message_broken(broken)).file(name),
                })
            }),
        }
    }
}

/// Adds the position of a record to an error.
fn placed(error: Error, file: &str, number: u64, offset: u64) -> Error {
    error.record(number).file(file).offset(offset)
}

/// Checks that a piece ends at the expected offset. The check fails if the index belongs to a
/// different file.
fn at_end(offset: u64, end: u64, file: &str) -> Result<()> {
    if offset == end {
        return Ok(());
    }
    Err(Error::malformed("the records do not end at the offset in the index")
        .hint("pass -i index=none to ignore the index")
        .file(file)
        .offset(offset)
        .expected(end)
        .found(offset))
}

impl Drop for RowStream {
    fn drop(&mut self) {
        let Batch::Decoded(rows) = &mut self.batch else { return };
        let counts = self.shared.table.decoding.as_ref().is_some_and(|decoding| decoding.counts_unset);
        if counts && self.ended {
            self.shared.count_unset(&self.columns, rows.take_unset());
        }
    }
}

impl Batch {
    fn len(&self) -> usize {
        match self {
            Self::Decoded(rows) => rows.len(),
            Self::Raw(rows) => rows.ends.len() - 1,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Decoded(rows) => rows.bytes(),
            Self::Raw(rows) => rows.data.len() as u64,
        }
    }

    fn is_full_for(&self, length: usize) -> bool {
        match self {
            Self::Decoded(rows) => rows.is_full_for(length),
            Self::Raw(rows) => !rows.data.is_empty() && i32::try_from(rows.data.len() + length).is_err(),
        }
    }

    #[inline]
    fn push(&mut self, record: &[u8], number: u64, offset: u64) -> Result<(), RowError> {
        match self {
            Self::Decoded(rows) => rows.push(record, number, offset),
            Self::Raw(rows) => {
                rows.data.extend_from_slice(record);
                // The length is less than 2^31. `is_full_for` ensures this for batches, and the
                // memory limit ensures it for a single record.
                rows.ends.push(i32::try_from(rows.data.len()).unwrap_or(i32::MAX));
                Ok(())
            }
        }
    }
}

/// Records that are returned as bytes.
struct RawRows {
    schema: SchemaRef,
    data: Vec<u8>,
    ends: Vec<i32>,
}

impl RawRows {
    fn finish(&mut self) -> Result<RecordBatch> {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        let data = std::mem::take(&mut self.data);
        let rows = ends.len() - 1;
        let array =
            BinaryArray::new(OffsetBuffer::new(ScalarBuffer::from(ends)), Buffer::from_vec(data), None);
        // If the column is not requested, the batch contains no arrays.
        let arrays: Vec<ArrayRef> =
            self.schema.fields().iter().map(|_| Arc::new(array.clone()) as ArrayRef).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|error| Error::plugin(format!("the batch does not match the schema: {error}")))
    }
}
