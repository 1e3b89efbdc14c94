//! A flow is a sequence of batches of one schema, pulled one after the other. What is upstream of it
//! runs ahead on threads of its own, bounded by the memory's budget; steps are flows over flows.

use super::rows::Rows;
use crate::run::Run;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;
use tensorferry_sdk::records::{Batches, from_stream};
use tensorferry_sdk::{Context, Result, arrow_array, arrow_schema};

/// Rows of one batch, at most, and its bytes in memory, roughly. They do not depend on the budget: where
/// batches end decides where an output's pieces end, and the same input shall give the same bytes.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: u64 = 2 << 20;

/// Batches of one schema, in order. After an error or the end nothing follows.
pub trait Flow: Send {
    /// The schema of every batch.
    fn schema(&self) -> SchemaRef;

    /// The next batch, which has at least one row; `None` at the end.
    ///
    /// # Errors
    /// Whatever is wrong with the input, or with the step.
    fn next(&mut self) -> Result<Option<RecordBatch>>;

    /// Told before the first batch, where the flow is one of several epochs: which one, from 0.
    fn begin_epoch(&mut self, epoch: u64);
}

/// How the host asks for batches.
#[must_use]
pub fn batches(columns: Option<Vec<usize>>) -> Batches {
    Batches { columns, rows: BATCH_ROWS, bytes: BATCH_BYTES }
}

/// All rows of an input, in order; splits are read ahead on `run.threads` threads.
pub struct Read<'scope> {
    schema: SchemaRef,
    /// One channel for each split that is being read, the first one next.
    splits: Receiver<Receiver<Result<RecordBatch>>>,
    current: Option<Receiver<Result<RecordBatch>>>,
    has_ended: bool,
    _threads: std::marker::PhantomData<&'scope ()>,
}

/// Reads the splits `chosen` of the input, all columns or those named, in this order.
pub fn read<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    rows: &'env Rows<'env>,
    chosen: Vec<usize>,
    columns: Option<Vec<usize>>,
    run: &'env Run,
) -> Read<'scope> {
    let schema = match &columns {
        Some(columns) => rows.set.schema().project(columns).map_or_else(|_| rows.set.schema(), Into::into),
        None => rows.set.schema(),
    };
    let ahead = ahead(run);
    let (announce, splits) = sync_channel(run.threads);
    // A small thread hands out the splits in order, so that readers start only as many as are wanted.
    scope.spawn(move || {
        let readers = run.threads;
        let next = AtomicUsize::new(0);
        let (work, tasks) = (std::sync::Mutex::new(announce), &next);
        std::thread::scope(|inner| {
            for _ in 0..readers {
                inner.spawn(|| {
                    loop {
                        // The number and its announcement are one step: channels come in order.
                        let Ok(announce) = work.lock() else { return };
                        let place = tasks.fetch_add(1, Ordering::Relaxed);
                        let Some(&split) = chosen.get(place) else { return };
                        let (send, receive) = sync_channel(ahead);
                        if announce.send(receive).is_err() {
                            return;
                        }
                        drop(announce);
                        pull(rows, split, columns.clone(), run, &send);
                    }
                });
            }
        });
    });
    Read { schema, splits, current: None, has_ended: false, _threads: std::marker::PhantomData }
}

/// Batches that one reader may be ahead: an eighth of the budget for all of them.
fn ahead(run: &Run) -> usize {
    let batches = run.memory / 8 / BATCH_BYTES / run.threads as u64;
    usize::try_from(batches).unwrap_or(usize::MAX).clamp(1, 8)
}

fn pull(
    rows: &Rows<'_>,
    split: usize,
    columns: Option<Vec<usize>>,
    run: &Run,
    send: &SyncSender<Result<RecordBatch>>,
) {
    let stream = match rows.set.stream(split, &batches(columns)) {
        Ok(stream) => stream,
        Err(error) => {
            // Nobody listens any more where the receiver is gone.
            let _ = send.send(Err(rows.place(error)));
            return;
        }
    };
    for batch in stream {
        let batch = batch.map_err(|error| rows.place(from_stream(error)));
        let batch = run.check_cancelled().and(batch);
        let is_last = batch.is_err();
        if send.send(batch).is_err() || is_last {
            return;
        }
    }
}

impl Flow for Read<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn begin_epoch(&mut self, _epoch: u64) {}

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.has_ended {
            let Some(current) = &self.current else {
                match self.splits.recv() {
                    Ok(next) => self.current = Some(next),
                    Err(_) => self.has_ended = true,
                }
                continue;
            };
            match current.recv() {
                Ok(Ok(batch)) if batch.num_rows() == 0 => {}
                Ok(Ok(batch)) => return Ok(Some(batch)),
                Ok(Err(error)) => {
                    self.has_ended = true;
                    return Err(error);
                }
                Err(_) => self.current = None,
            }
        }
        Ok(None)
    }
}
