//! A flow is a sequence of batches with one schema, which a consumer pulls one by one. The readers
//! of a flow run ahead of the consumer on separate threads, and the memory budget limits how far
//! ahead they run. A step converts a flow to a new flow.

use super::progress::{self, SplitProgress};
use super::rows::Rows;
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::records::{self, Comparison, FieldPath, Projection, ScanRequest, from_stream};
use tensorferry_sdk::{Context, Error, Result, arrow_array, arrow_schema};

/// Maximum number of rows in a batch. The ends of batches determine where an output's pieces end,
/// and the same input must result in the same bytes. Batch sizes therefore do not depend on the
/// memory budget.
pub(crate) const BATCH_ROWS: usize = 8192;
pub(crate) const BATCH_BYTES: u64 = 2 << 20;
/// Size of a column in the batches of a wide table. If batches had fewer rows, the work for each
/// column would take longer than the work for its values.
const COLUMN_BYTES: u64 = 8 << 10;
const MAX_BATCH_BYTES: u64 = 8 << 20;

/// Batches with one schema, in order. After an error or after the end, no more batches follow.
pub trait Flow: Send {
    fn schema(&self) -> SchemaRef;

    /// Returns the next batch, which has at least one row. Returns `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>>;
}

/// Returns a flow that gets each batch from `next`. The flow ends when `next` returns `None`.
pub fn from_fn<'a>(
    schema: SchemaRef,
    next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'a,
) -> Box<dyn Flow + 'a> {
    Box::new(FlowFn { schema, next })
}

struct FlowFn<F> {
    schema: SchemaRef,
    next: F,
}

impl<F: FnMut() -> Result<Option<RecordBatch>> + Send> Flow for FlowFn<F> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        (self.next)()
    }
}

/// Starts threads that must end before the lifetime `'a` ends.
pub trait Threads<'a>: Sync {
    fn spawn(&'a self, task: Box<dyn FnOnce() + Send + 'a>);
}

impl<'a> Threads<'a> for Scope<'a, '_> {
    fn spawn(&'a self, task: Box<dyn FnOnce() + Send + 'a>) {
        Scope::spawn(self, task);
    }
}

/// Returns the batch sizes that the host requests from readers.
#[must_use]
pub fn batches() -> records::Batches {
    records::Batches { columns: None, rows: BATCH_ROWS, bytes: BATCH_BYTES }
}

/// The fields and rows to read from every split.
#[derive(Debug, Clone, Default)]
pub struct ReadSelection {
    /// The fields to read, as in a [`ScanRequest`]; `None` for all fields.
    pub columns: Option<Vec<FieldPath>>,
    /// Conditions that are true for every needed row. A reader may leave out all other rows.
    pub(crate) predicate: Vec<Comparison>,
}

/// A contiguous range of rows in a split.
#[derive(Debug, Clone, Copy)]
pub struct SplitRows {
    pub split: usize,
    pub(crate) first_row: u64,
    /// Maximum number of rows to read; `None` for all rows from `first_row` to the end of the
    /// split.
    pub limit: Option<u64>,
}

impl SplitRows {
    /// Returns the range of all rows of a split.
    #[must_use]
    pub(crate) fn whole(split: usize) -> Self {
        Self { split, first_row: 0, limit: None }
    }
}

/// Skips the first `skip` rows of a flow, and returns at most `take` of the remaining rows.
pub fn window<'a>(mut flow: Box<dyn Flow + 'a>, mut skip: u64, take: Option<u64>) -> Box<dyn Flow + 'a> {
    let mut take = take.unwrap_or(u64::MAX);
    from_fn(flow.schema(), move || {
        while take > 0 {
            let Some(batch) = flow.next()? else { break };
            let rows = batch.num_rows() as u64;
            let skipped = skip.min(rows);
            skip -= skipped;
            let taken = take.min(rows - skipped);
            if taken > 0 {
                take -= taken;
                // The conversions cannot fail, because neither number exceeds the number of rows in
                // the batch.
                let (from, len) =
                    (usize::try_from(skipped).unwrap_or(0), usize::try_from(taken).unwrap_or(0));
                return Ok(Some(batch.slice(from, len)));
            }
        }
        Ok(None)
    })
}

/// Returns the size in bytes that batches of a table should have.
fn batch_bytes(schema: &Schema) -> u64 {
    let columns = schema.flattened_fields().len() as u64;
    (columns * COLUMN_BYTES).clamp(BATCH_BYTES, MAX_BATCH_BYTES)
}

type Batches = Receiver<Result<RecordBatch>>;

/// Returns the rows of the specified splits of an input, in this order. Reading starts when the
/// first batch is pulled. The readers run ahead on as many threads as the session has.
pub fn read<'a>(
    threads: &'a dyn Threads<'a>,
    rows: &'a Rows<'a>,
    splits: Vec<SplitRows>,
    wanted: ReadSelection,
    session: &'a Session,
) -> Box<dyn Flow + 'a> {
    let schema = rows.set.schema();
    // If a field path is invalid, the readers' streams report the error.
    let projected = wanted.columns.as_ref().and_then(|paths| Projection::new(&schema, paths).ok());
    let schema = projected.map_or(schema, |projection| projection.schema());
    let batch_bytes = batch_bytes(&schema);
    let mut waiting = Some((splits, wanted));
    // `reading` yields one channel for each split that is being read, in order. `current` is the
    // channel of the current split.
    let (mut reading, mut current): (Option<Receiver<Batches>>, Option<Batches>) = (None, None);
    from_fn(schema, move || {
        if let Some((splits, wanted)) = waiting.take() {
            reading = Some(start(threads, rows, splits, wanted, batch_bytes, session));
        }
        while let Some(splits) = &reading {
            match current.as_ref().map(Receiver::recv) {
                Some(Ok(Ok(batch))) if batch.num_rows() == 0 => {}
                Some(Ok(Ok(batch))) => return Ok(Some(batch)),
                Some(Ok(Err(error))) => {
                    (reading, current) = (None, None);
                    return Err(error);
                }
                // The current split has ended, or the first split has not been started.
                Some(Err(_)) | None => match splits.recv() {
                    Ok(next) => current = Some(next),
                    Err(_) => reading = None,
                },
            }
        }
        Ok(None)
    })
}

/// Starts the reader threads. Under a lock, each thread takes the next split and sends a receiver
/// for the split's batches. The receivers therefore arrive in the order of the splits. A thread
/// that is too far ahead of the consumer waits.
fn start<'a>(
    threads: &'a dyn Threads<'a>,
    rows: &'a Rows<'a>,
    splits: Vec<SplitRows>,
    wanted: ReadSelection,
    batch_bytes: u64,
    session: &'a Session,
) -> Receiver<Batches> {
    progress::begin(rows, splits.iter().map(|range| range.split), session);
    let wanted = Arc::new(wanted);
    let (announce, announced) = sync_channel(session.threads);
    let tasks = Arc::new(Mutex::new((splits.into_iter(), announce)));
    for _ in 0..session.threads {
        let (tasks, wanted) = (tasks.clone(), wanted.clone());
        threads.spawn(Box::new(move || {
            loop {
                let mut task = tasks.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(split) = task.0.next() else { return };
                let (send, receive) = sync_channel(ahead(batch_bytes, session));
                if task.1.send(receive).is_err() {
                    return;
                }
                drop(task);
                pull(rows, split, &wanted, batch_bytes, session, &send);
            }
        }));
    }
    announced
}

/// Returns the number of batches that a reader may be ahead of the consumer. All readers together
/// use at most a sixteenth of the memory budget.
fn ahead(batch_bytes: u64, session: &Session) -> usize {
    let batches = session.memory / 16 / batch_bytes / session.threads as u64;
    usize::try_from(batches).unwrap_or(usize::MAX).clamp(1, 8)
}

fn pull(
    rows: &Rows<'_>,
    range: SplitRows,
    wanted: &ReadSelection,
    batch_bytes: u64,
    session: &Session,
    send: &SyncSender<Result<RecordBatch>>,
) {
    let SplitRows { split, first_row, limit } = range;
    let known = rows.set.splits().get(split).and_then(|split| split.records);
    let ReadSelection { columns, predicate } = wanted.clone();
    let expected = known.filter(|_| predicate.is_empty()).map(|known| {
        let from = known.saturating_sub(first_row);
        limit.map_or(from, |limit| limit.min(from))
    });
    let is_whole = first_row == 0 && limit.is_none_or(|limit| known == Some(limit));
    let limit = limit.filter(|_| !is_whole);
    let scan = ScanRequest { columns, first_row, limit, predicate, rows: BATCH_ROWS, bytes: batch_bytes };
    let stream = match rows.set.scan(split, &scan) {
        Ok(stream) => stream,
        Err(error) => {
            // If the receiver has been dropped, the error is not needed.
            let _ = send.send(Err(rows.place(error)));
            return;
        }
    };
    let mut progress = SplitProgress::new(rows, split, session);
    let mut found = 0;
    for batch in stream {
        let batch = batch.map_err(|error| rows.place(from_stream(error)));
        let batch = session.check_cancelled().and(batch);
        found += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        progress.update();
        let is_last = batch.is_err();
        if send.send(batch).is_err() || is_last {
            return;
        }
    }
    progress.end();
    // The scan omits the rows before `first_row` and after `limit`, so `found` does not include
    // these rows.
    if let Some(expected) = expected.filter(|&expected| expected != found) {
        let error =
            Error::plugin("the number of rows in a split differs from the number that its reader declared");
        let _ = send.send(Err(rows.place(error.expected(expected).found(found))));
    }
}
