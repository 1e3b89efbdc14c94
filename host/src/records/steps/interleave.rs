//! `interleave` reads several files in turns, as `tf.data.Dataset.interleave` does over a data set of
//! files: a few rows of one, a few of the next, and when one ends, the next file takes its place.

use super::{RecordStep, Upstream};
use crate::records::flow::{self, Flow, Read};
use crate::steps::Action;
use crate::steps::kind::{Argument, Count, Given, Key, Kind};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::collections::VecDeque;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};

/// Rows of a batch that it gives, at least, but for the last one.
const BATCH_ROWS: usize = 1024;

pub(super) static INTERLEAVE: Kind = Kind {
    name: "interleave",
    summary: "several files in turns",
    details: "It has to be the first step.",
    argument: Argument::Required("CYCLE", "how many files are open at a time"),
    keys: &[Key {
        name: "block_length",
        value: "N",
        count: Count::Optional,
        help: "how many records of one file come together [default: 1]",
    }],
    selects: false,
    examples: &["interleave:4,block_length=16"],
    make,
};

#[derive(Debug)]
struct Interleave {
    cycle: usize,
    block: usize,
}

fn make(given: &Given<'_>) -> Result<Action> {
    let field = given.required_argument()?;
    let cycle: usize = field.number()?;
    let block: usize = given.one("block_length").map_or(Ok(1), |field| field.number())?;
    if cycle == 0 || block == 0 {
        return Err(field.error("a cycle and a block of at least 1"));
    }
    // More are never open, and what is asked is not allocated.
    Ok(Action::Record(Box::new(Interleave { cycle: cycle.min(1 << 16), block })))
}

impl RecordStep for Interleave {
    fn apply<'scope, 'env: 'scope>(
        &'env self,
        upstream: Upstream<'scope, 'env>,
    ) -> Result<Box<dyn Flow + 'scope>> {
        if !upstream.is_first() {
            return Err(Error::usage("it takes files in turns, so that it has to be the first step"));
        }
        let mut files: Vec<Vec<usize>> = Vec::new();
        let mut last = None;
        for (place, split) in upstream.rows().set.splits().iter().enumerate() {
            if last == Some(&split.file) {
                if let Some(file) = files.last_mut() {
                    file.push(place);
                }
            } else {
                files.push(vec![place]);
            }
            last = Some(&split.file);
        }
        let slots = self.cycle.min(files.len()).max(1);
        Ok(Box::new(Interleaved {
            schema: upstream.rows().set.schema(),
            upstream,
            files: files.into(),
            slots: (0..slots).map(|_| None).collect(),
            block: self.block,
            slot: 0,
            in_block: 0,
        }))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows
    }
}

struct Interleaved<'scope, 'env: 'scope> {
    schema: SchemaRef,
    upstream: Upstream<'scope, 'env>,
    /// The splits of each file that was not opened yet.
    files: VecDeque<Vec<usize>>,
    slots: Vec<Option<Open<'scope, 'env>>>,
    block: usize,
    slot: usize,
    in_block: usize,
}

/// A file that is being read.
struct Open<'scope, 'env: 'scope> {
    flow: Read<'scope, 'env>,
    batch: Option<RecordBatch>,
}

impl Open<'_, '_> {
    /// At most `most` rows; `None` at the file's end.
    fn rows(&mut self, most: usize) -> Result<Option<RecordBatch>> {
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => match self.flow.next()? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        let taken = most.min(batch.num_rows());
        if taken < batch.num_rows() {
            self.batch = Some(batch.slice(taken, batch.num_rows() - taken));
        }
        Ok(Some(batch.slice(0, taken)))
    }
}

impl Flow for Interleaved<'_, '_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn begin_epoch(&mut self, _epoch: u64) {}

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut runs = Vec::new();
        let mut rows = 0;
        while rows < BATCH_ROWS {
            if let Some(open) = &mut self.slots[self.slot] {
                if let Some(run) = open.rows(self.block - self.in_block)? {
                    rows += run.num_rows();
                    self.in_block += run.num_rows();
                    runs.push(run);
                    if self.in_block == self.block {
                        self.turn();
                    }
                } else {
                    self.slots[self.slot] = None;
                    self.turn();
                }
            } else if let Some(splits) = self.files.pop_front() {
                let (scope, rows, run) = (self.upstream.scope(), self.upstream.rows(), self.upstream.run());
                let flow = flow::read(scope, rows, splits, run);
                self.slots[self.slot] = Some(Open { flow, batch: None });
            } else if self.slots.iter().all(Option::is_none) {
                break;
            } else {
                self.turn();
            }
        }
        if runs.is_empty() {
            return Ok(None);
        }
        let joined = arrow_select::concat::concat_batches(&self.schema, &runs);
        joined.map(Some).map_err(|e| Error::unsupported(format!("columns that cannot be joined: {e}")))
    }
}

impl Interleaved<'_, '_> {
    fn turn(&mut self) {
        self.in_block = 0;
        self.slot = (self.slot + 1) % self.slots.len();
    }
}
