//! The step `prefetch` reads ahead of its consumer, limited by a number of bytes.

use super::{RecordAction, RecordStep, Upstream};
use crate::batch_bytes::batch_bytes;
use crate::flow::{Flow, Threads};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::{Result, arrow_array, arrow_schema, parse_size};
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Signature};

pub(super) static PREFETCH: Signature = Signature {
    name: "prefetch",
    summary: "let the previous steps run ahead",
    details: "Reading and writing always run ahead of the steps; this is for a slow step.",
    argument: ArgumentSpec::Required("SIZE", "maximum bytes of waiting records"),
    keys: &[],
    selects: false,
    examples: &["prefetch:16MiB"],
};

#[derive(Debug)]
struct Prefetch {
    bytes: u64,
}

pub(super) fn prefetch(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let field = spec.required_argument()?;
    let bytes = parse_size(&field.text)
        .ok_or_else(|| field.error(format!("expected a size such as 16MiB, found {:?}", field.text)))?;
    Ok(Box::new(Prefetch { bytes }))
}

impl RecordStep for Prefetch {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        let mut flow = upstream.flow()?;
        let queue =
            Arc::new(Queue { most: self.bytes.min(upstream.session.held_bytes()), ..Queue::default() });
        let schema = flow.schema();
        Ok(Box::new(Prefetched {
            schema,
            waiting: Some(Box::new({
                let queue = queue.clone();
                move || {
                    loop {
                        let next = flow.next();
                        let is_last = !matches!(next, Ok(Some(_)));
                        if !queue.push(next) || is_last {
                            return;
                        }
                    }
                }
            })),
            threads: upstream.threads,
            queue,
        }))
    }

    fn is_row_wise(&self) -> bool {
        true
    }
}

/// The queue of batches that wait for the consumer.
#[derive(Default)]
struct Queue {
    most: u64,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    batches: VecDeque<(u64, Result<Option<RecordBatch>>)>,
    bytes: u64,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the queue has room, and adds a batch. Returns false if the consumer has been
    /// dropped.
    fn push(&self, next: Result<Option<RecordBatch>>) -> bool {
        let bytes = match &next {
            Ok(Some(batch)) => batch_bytes(batch),
            _ => 0,
        };
        let mut state = self.state();
        while !state.is_closed && !state.batches.is_empty() && state.bytes + bytes > self.most {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
        state.batches.push_back((bytes, next));
        self.changed.notify_all();
        !state.is_closed
    }

    fn pop(&self) -> Result<Option<RecordBatch>> {
        let mut state = self.state();
        loop {
            if let Some((bytes, next)) = state.batches.pop_front() {
                state.bytes -= bytes;
                self.changed.notify_all();
                return next;
            }
            if state.is_closed {
                return Ok(None);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}

struct Prefetched<'a> {
    schema: SchemaRef,
    threads: &'a dyn Threads<'a>,
    /// The task that fills the queue. It is started when the first batch is requested.
    waiting: Option<Box<dyn FnOnce() + Send + 'a>>,
    queue: Arc<Queue>,
}

impl Flow for Prefetched<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(fill) = self.waiting.take() {
            self.threads.spawn(fill);
        }
        let next = self.queue.pop();
        if !matches!(next, Ok(Some(_))) {
            self.queue.close();
        }
        next
    }
}

impl Drop for Prefetched<'_> {
    fn drop(&mut self) {
        self.queue.close();
    }
}
