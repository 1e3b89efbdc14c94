//! Reads ahead the records of a scan. A separate thread pulls the records through the steps, and
//! puts the batches into a short queue.

use super::{OpenedScan, Scan};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tensorferry_records::flow::Flow;
use tensorferry_records::rows;
use tensorferry_records::steps::{self, Origin, RecordAction, make};
use tensorferry_sdk::records::BatchStream;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema, records};
use tensorferry_tensors::steps::Step;

/// Maximum number of batches in the queue after the steps. The readers have queues of their own.
const WAITING: usize = 2;

/// Returns the schema after the steps, without reading any record.
pub(super) fn schema(opened: &OpenedScan, on_records: &[Step<RecordAction>]) -> Result<SchemaRef> {
    let rows = rows::shared(opened.source.clone(), &opened.format, opened.set.clone());
    Origin::Rows(&rows).check(on_records)?;
    steps::schema(opened.set.schema(), on_records)
}

/// Returns all records of a scan after its steps. Reading starts when the first batch is requested.
pub(super) fn batches(scan: Scan) -> BatchStream {
    // The ID of the process in which the reading thread runs, and the receiver for that thread's
    // batches.
    let mut running = None;
    records::batches(scan.schema.clone(), move || {
        let (process, batches) = match &mut running {
            Some(running) => running,
            none => none.insert((std::process::id(), start(scan.clone())?)),
        };
        if *process != std::process::id() {
            let problem = Error::usage("the stream was started before this process was forked");
            return Err(problem.hint("start a new stream in this process"));
        }
        // The thread sends the last batch or an error before it closes the channel, so a closed
        // channel means the end.
        batches.recv().map_or(Ok(None), |batch| batch.map(Some))
    })
}

fn start(scan: Scan) -> Result<Receiver<Result<RecordBatch>>> {
    let (send, receive) = sync_channel(WAITING);
    let thread = std::thread::Builder::new().name("ferry-scan".to_owned());
    let started = thread.spawn(move || read(&scan, &send));
    started.map_err(|error| Error::io(format!("cannot start a thread: {error}")))?;
    Ok(receive)
}

/// Sends batches until the records end, an error occurs, or the receiver is dropped.
fn read(scan: &Scan, send: &SyncSender<Result<RecordBatch>>) {
    let pull = |flow: &mut dyn Flow| {
        while let Some(batch) = flow.next()? {
            if send.send(Ok(batch)).is_err() {
                break;
            }
        }
        Ok(())
    };
    let pulled =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with_flow(&scan.opened, &scan.steps, pull)));
    let failed = match pulled {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(_) => Error::plugin("the reader of the records panicked"),
    };
    // If the receiver has been dropped, sending fails, but the error is not needed.
    let _ = send.send(Err(failed));
}

fn with_flow<T>(
    opened: &OpenedScan,
    steps: &[Step<RecordAction>],
    work: impl FnOnce(&mut dyn Flow) -> Result<T>,
) -> Result<T> {
    let rows = rows::shared(opened.source.clone(), &opened.format, opened.set.clone());
    std::thread::scope(|scope| work(&mut *make(scope, Origin::Rows(&rows), steps, &opened.session)?))
}
