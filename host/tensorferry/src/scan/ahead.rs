//! Records of a scan, read ahead: a thread of its own pulls them through the steps, and what it has waits in a short
//! queue for whoever asks for the next batch.

use super::{Opened, Scan};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tensorferry_records::flow::Flow;
use tensorferry_records::rows;
use tensorferry_records::steps::{self, Origin, RecordAction, make};
use tensorferry_sdk::records::Batched;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema, records};
use tensorferry_tensors::steps::Step;

/// Batches that wait behind the steps; the readers before them have queues of their own.
const WAITING: usize = 2;

/// The columns after the steps; no record is read for them.
pub(super) fn schema(opened: &Opened, on_records: &[Step<RecordAction>]) -> Result<SchemaRef> {
    let rows = rows::shared(opened.source.clone(), &opened.format, opened.set.clone());
    Origin::Rows(&rows).check(on_records)?;
    steps::schema(opened.set.schema(), on_records)
}

/// All records of a scan after its steps. Nothing is read before the first batch is asked for.
pub(super) fn batches(scan: Scan) -> Batched {
    // The process in which the thread runs, and what it sends.
    let mut running = None;
    records::batches(scan.schema.clone(), move || {
        let (process, batches) = match &mut running {
            Some(running) => running,
            none => none.insert((std::process::id(), start(scan.clone())?)),
        };
        if *process != std::process::id() {
            return Err(Error::usage(
                "the stream was begun before this process was forked: begin another one in it",
            ));
        }
        // The thread has sent an error, or all there is, before it lets go of its end.
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

/// Sends batches until there are no more, one cannot be read, or nobody takes them.
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
        Err(_) => Error::plugin("the records' reader panicked"),
    };
    // Nobody listens any more where the receiver is gone.
    let _ = send.send(Err(failed));
}

fn with_flow<T>(
    opened: &Opened,
    steps: &[Step<RecordAction>],
    work: impl FnOnce(&mut dyn Flow) -> Result<T>,
) -> Result<T> {
    let rows = rows::shared(opened.source.clone(), &opened.format, opened.set.clone());
    std::thread::scope(|scope| work(&mut *make(scope, Origin::Rows(&rows), steps, &opened.session)?))
}
