//! Streams across the boundary. The C stream interface knows a number and a text for an error, so the
//! typed one stays behind, under the stream's ticket.

use super::arrow::stream_from_abi;
use crate::records::{Batched, from_stream, stream_error};
use crate::{Error, Result};
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_abi::{ArrowArrayStream, Failure, caught};

/// What streams failed with, by their tickets.
#[derive(Default)]
pub(super) struct Tickets {
    last: Mutex<u64>,
    faults: Mutex<HashMap<u64, Error>>,
}

impl Tickets {
    pub(super) fn draw(&self) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        *last
    }

    pub(super) fn take(&self, ticket: u64) -> Option<Error> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket)
    }

    fn keep(&self, ticket: u64, error: Error) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, error);
    }
}

/// A stream of a plugin's author: panics are caught, errors kept, and nothing follows one.
pub(super) struct LentStream {
    schema: SchemaRef,
    stream: Option<Batched>,
    tickets: Arc<Tickets>,
    ticket: u64,
}

impl LentStream {
    pub(super) fn new(stream: Batched, tickets: Arc<Tickets>, ticket: u64) -> Self {
        Self { schema: stream.schema(), stream: Some(stream), tickets, ticket }
    }
}

impl Iterator for LentStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut()?;
        let next = caught("RecordSet.scan", || Ok(stream.next().transpose().map_err(from_stream)?))
            .map_err(Error::from);
        match next {
            Ok(batch) => batch.map(Ok),
            Err(error) => {
                let text = error.to_string();
                self.tickets.keep(self.ticket, error);
                let _: Result<(), Failure> = caught("drop", || {
                    drop(self.stream.take());
                    Ok(())
                });
                Some(Err(ArrowError::ComputeError(text)))
            }
        }
    }
}

impl RecordBatchReader for LentStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Drop for LentStream {
    fn drop(&mut self) {
        let stream = self.stream.take();
        let _: Result<(), Failure> = caught("drop", || {
            drop(stream);
            Ok(())
        });
    }
}

/// A stream of the other side; `fault` gives the error behind its ticket.
pub(super) struct RemoteStream<F> {
    stream: RecordBatchStreamReader,
    fault: F,
    has_ended: bool,
}

impl<F: Fn() -> Option<Error>> RemoteStream<F> {
    pub(super) fn new(stream: ArrowArrayStream, fault: F) -> Result<Self> {
        Ok(Self { stream: stream_from_abi(stream)?, fault, has_ended: false })
    }
}

impl<F: Fn() -> Option<Error>> Iterator for RemoteStream<F> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.stream.next();
        self.has_ended = !matches!(next, Some(Ok(_)));
        Some(next?.map_err(|error| stream_error((self.fault)().unwrap_or_else(|| from_stream(error)))))
    }
}

impl<F: Fn() -> Option<Error>> RecordBatchReader for RemoteStream<F> {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
