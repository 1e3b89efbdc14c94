//! Passes streams across the boundary. The C stream interface represents an error only as a number
//! and a string. The plugin's side therefore stores the typed error, and the host fetches it with
//! the stream's ticket.

use super::super::faults::PluginObject;
use crate::records::c_import::CStream;
use crate::records::{BatchStream, from_stream, stream_error};
use crate::{Error, Result};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_abi::{ArrowArrayStream, Failure, RecordSetTable, caught};

/// Stream errors, by ticket.
#[derive(Default)]
pub(super) struct Tickets {
    last: Mutex<u64>,
    faults: Mutex<HashMap<u64, Error>>,
}

impl Tickets {
    pub(super) fn issue(&self) -> u64 {
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

/// A stream that the plugin author implements. The wrapper catches panics and stores errors. The
/// stream ends after the first error.
pub(super) struct LentStream {
    schema: SchemaRef,
    stream: Option<BatchStream>,
    tickets: Arc<Tickets>,
    ticket: u64,
}

impl LentStream {
    pub(super) fn new(stream: BatchStream, tickets: Arc<Tickets>, ticket: u64) -> Self {
        Self { schema: stream.schema(), stream: Some(stream), tickets, ticket }
    }

    fn end(&mut self) {
        let stream = self.stream.take();
        let ended: Result<(), Failure> = caught("drop", || {
            drop(stream);
            Ok(())
        });
        if let Err(panic) = ended {
            self.tickets.keep(self.ticket, panic.into());
        }
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
                self.end();
                self.tickets.keep(self.ticket, error);
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
        self.end();
    }
}

/// A plugin's stream. The set that the stream belongs to provides the error for the stream's
/// ticket.
pub(super) struct RemoteStream {
    /// The stream, or `None` if it has been released.
    stream: Option<CStream>,
    schema: SchemaRef,
    set: Arc<PluginObject<RecordSetTable>>,
    ticket: u64,
    has_ended: bool,
}

impl RemoteStream {
    pub(super) fn new(
        stream: ArrowArrayStream,
        set: Arc<PluginObject<RecordSetTable>>,
        ticket: u64,
    ) -> Result<Self> {
        let stream = CStream::new(stream)
            .map_err(|error| fault_of(&set, ticket).unwrap_or_else(|| set.attribute_error(error)))?;
        let schema = stream.schema();
        Ok(Self { stream: Some(stream), schema, set, ticket, has_ended: false })
    }

    fn fault(&self) -> Option<Error> {
        fault_of(&self.set, self.ticket)
    }
}

/// Fetches the error of the stream with this ticket. The error can be fetched only once.
fn fault_of(set: &PluginObject<RecordSetTable>, ticket: u64) -> Option<Error> {
    set.result_or_default(set.fault(ticket)).err()
}

impl Iterator for RemoteStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.stream.as_mut()?.next();
        self.has_ended = !matches!(next, Some(Ok(_)));
        Some(next?.map_err(|error| {
            stream_error(self.fault().unwrap_or_else(|| self.set.attribute_error(from_stream(error))))
        }))
    }
}

impl RecordBatchReader for RemoteStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Drop for RemoteStream {
    fn drop(&mut self) {
        // Releasing a stream returns nothing, so use the ticket to fetch any error from the
        // release.
        drop(self.stream.take());
        if let Some(fault) = self.fault() {
            self.set.faults.keep(fault);
        }
    }
}
