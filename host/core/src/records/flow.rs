//! A flow is a sequence of batches of one schema, pulled one after the other. What is upstream of it
//! runs ahead on threads of its own, bounded by the memory's budget; steps are flows over flows.

use super::rows::Rows;
use crate::context::session::Session;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use tensorferry_sdk::records::{self, from_stream};
use tensorferry_sdk::{Context, Result, arrow_array, arrow_schema};

/// Rows of one batch, at most, and its bytes in memory, roughly. They do not depend on the budget: where
/// batches end decides where an output's pieces end, and the same input shall give the same bytes.
pub(crate) const BATCH_ROWS: usize = 8192;
pub(crate) const BATCH_BYTES: u64 = 2 << 20;

/// Batches of one schema, in order. After an error or the end nothing follows.
pub trait Flow: Send {
    /// The schema of every batch.
    fn schema(&self) -> SchemaRef;

    /// The next batch, which has at least one row; `None` at the end.
    ///
    /// # Errors
    /// Whatever is wrong with the input, or with the step.
    fn next(&mut self) -> Result<Option<RecordBatch>>;
}

/// How the host asks for batches.
#[must_use]
pub fn batches() -> records::Batches {
    records::Batches { columns: None, rows: BATCH_ROWS, bytes: BATCH_BYTES }
}

/// Rows of an input, in order; splits are read ahead on `run.threads` threads, from the first pull on.
pub struct Read<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    rows: &'env Rows<'env>,
    /// The splits that are read, in this order.
    chosen: Vec<usize>,
    session: &'env Session,
    progress: Progress,
}

enum Progress {
    Waiting,
    Reading {
        /// One channel for each split that is being read, in order.
        splits: Receiver<Batches>,
        current: Option<Batches>,
    },
    Ended,
}

type Batches = Receiver<Result<RecordBatch>>;

/// Reads the splits `chosen` of the input, in this order.
pub fn read<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    rows: &'env Rows<'env>,
    chosen: Vec<usize>,
    session: &'env Session,
) -> Read<'scope, 'env> {
    Read { scope, rows, chosen, session, progress: Progress::Waiting }
}

impl Read<'_, '_> {
    /// Starts the readers. Each takes the next split and announces its channel in one step, so that the
    /// channels come in order; who is too far ahead waits for room.
    fn start(&mut self) -> Receiver<Batches> {
        let (rows, session) = (self.rows, self.session);
        let (announce, splits) = sync_channel(session.threads);
        let chosen = std::mem::take(&mut self.chosen);
        let tasks = Arc::new(Mutex::new((chosen.into_iter(), announce)));
        for _ in 0..session.threads {
            let tasks = tasks.clone();
            self.scope.spawn(move || {
                loop {
                    let mut task = tasks.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(split) = task.0.next() else { return };
                    let (send, receive) = sync_channel(ahead(session));
                    if task.1.send(receive).is_err() {
                        return;
                    }
                    drop(task);
                    pull(rows, split, session, &send);
                }
            });
        }
        splits
    }
}

/// Batches that one reader may be ahead: a sixteenth of the budget for all of them.
fn ahead(session: &Session) -> usize {
    let batches = session.memory / 16 / BATCH_BYTES / session.threads as u64;
    usize::try_from(batches).unwrap_or(usize::MAX).clamp(1, 8)
}

fn pull(rows: &Rows<'_>, split: usize, session: &Session, send: &SyncSender<Result<RecordBatch>>) {
    let stream = match rows.set.stream(split, &batches()) {
        Ok(stream) => stream,
        Err(error) => {
            // Nobody listens any more where the receiver is gone.
            let _ = send.send(Err(rows.place(error)));
            return;
        }
    };
    for batch in stream {
        let batch = batch.map_err(|error| rows.place(from_stream(error)));
        let batch = session.check_cancelled().and(batch);
        let is_last = batch.is_err();
        if send.send(batch).is_err() || is_last {
            return;
        }
    }
}

impl Flow for Read<'_, '_> {
    fn schema(&self) -> SchemaRef {
        self.rows.set.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match &mut self.progress {
                Progress::Waiting => {
                    self.progress = Progress::Reading { splits: self.start(), current: None };
                }
                Progress::Reading { splits, current } => match current.as_ref().map(Receiver::recv) {
                    Some(Ok(Ok(batch))) if batch.num_rows() == 0 => {}
                    Some(Ok(Ok(batch))) => return Ok(Some(batch)),
                    Some(Ok(Err(error))) => {
                        self.progress = Progress::Ended;
                        return Err(error);
                    }
                    // The split has ended, or it is the first.
                    Some(Err(_)) | None => match splits.recv() {
                        Ok(next) => *current = Some(next),
                        Err(_) => self.progress = Progress::Ended,
                    },
                },
                Progress::Ended => return Ok(None),
            }
        }
    }
}
