//! The step `interleave` reads several files in turn, a few rows at a time, like
//! `tf.data.Dataset.interleave` over a dataset of files. When a file ends, a new file takes its
//! position in the cycle.

use super::gather::join;
use super::{Origin, RecordAction, RecordStep, Upstream};
use crate::flow::{self, Flow, ReadSelection, SplitRows};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::collections::VecDeque;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Key, Signature};

/// Minimum number of rows in an output batch, except for the last batch.
const BATCH_ROWS: usize = 1024;

pub(super) static INTERLEAVE: Signature = Signature {
    name: "interleave",
    summary: "read several files in turns",
    details: "Must be the first step. A file without records is skipped, and the next file takes its place.",
    argument: ArgumentSpec::Required("CYCLE", "number of files open at a time"),
    keys: &[Key::optional("block_length", "N", "number of consecutive records from one file [default: 1]")],
    selects: false,
    examples: &["interleave:4,block_length=16"],
};

#[derive(Debug)]
struct Interleave {
    cycle: usize,
    block: usize,
}

pub(super) fn interleave(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let field = spec.required_argument()?;
    let cycle: usize = field.number()?;
    let block: usize = spec.number("block_length")?.unwrap_or(1);
    if cycle == 0 || block == 0 {
        return Err(field.error("cycle and block_length must be at least 1"));
    }
    // The number of open files never exceeds this value. The limit prevents a large allocation for
    // a huge `cycle`.
    Ok(Box::new(Interleave { cycle: cycle.min(1 << 16), block }))
}

impl RecordStep for Interleave {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        // `Origin::check` has already checked that this is the first step and that the origin is an
        // input.
        let Origin::Rows(rows) = upstream.origin else { return upstream.flow() };
        let mut files: Vec<Vec<usize>> = Vec::new();
        let mut last = None;
        for (place, split) in rows.set.splits().iter().enumerate() {
            if last == Some(&split.file) {
                if let Some(file) = files.last_mut() {
                    file.push(place);
                }
            } else {
                files.push(vec![place]);
            }
            last = Some(&split.file);
        }
        let read = move |splits: Vec<usize>| {
            let splits = splits.into_iter().map(SplitRows::whole).collect();
            flow::read(upstream.threads, rows, splits, ReadSelection::default(), upstream.session)
        };
        Ok(Box::new(self.interleaved(rows.set.schema(), files, Box::new(read))))
    }

    fn is_first(&self) -> bool {
        true
    }
}

impl Interleave {
    fn interleaved<'a>(
        &self,
        schema: SchemaRef,
        files: Vec<Vec<usize>>,
        read: OpenFile<'a>,
    ) -> Interleaved<'a> {
        let slots = self.cycle.min(files.len()).max(1);
        Interleaved {
            schema,
            read,
            files: files.into(),
            slots: (0..slots).map(|_| None).collect(),
            block: self.block,
            slot: 0,
            in_block: 0,
        }
    }
}

/// A function that reads the specified splits of a file.
type OpenFile<'a> = Box<dyn Fn(Vec<usize>) -> Box<dyn Flow + 'a> + Send + 'a>;

struct Interleaved<'a> {
    schema: SchemaRef,
    read: OpenFile<'a>,
    /// For each file that has not been opened yet, the file's splits.
    files: VecDeque<Vec<usize>>,
    slots: Vec<Option<OpenInput<'a>>>,
    block: usize,
    slot: usize,
    in_block: usize,
}

/// A file that is being read.
struct OpenInput<'a> {
    flow: Box<dyn Flow + 'a>,
    batch: Option<RecordBatch>,
}

impl OpenInput<'_> {
    /// Returns at most `most` rows, or `None` at the end of the file.
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

impl Flow for Interleaved<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

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
                self.slots[self.slot] = Some(OpenInput { flow: (self.read)(splits), batch: None });
            } else if self.slots.iter().all(Option::is_none) {
                break;
            } else {
                self.turn();
            }
        }
        if runs.is_empty() {
            return Ok(None);
        }
        let joined = join(&self.schema, &runs);
        joined.map(Some).map_err(|e| Error::unsupported(format!("these columns cannot be joined: {e}")))
    }
}

impl Interleaved<'_> {
    fn turn(&mut self) {
        self.in_block = 0;
        self.slot = (self.slot + 1) % self.slots.len();
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::{DataType, Field, Schema};
    use std::sync::Arc;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
    }

    /// Returns the order in which rows from files of these lengths are read. A row is represented
    /// by the number of its file times 10, plus the number of the row in that file.
    fn order(lens: &[i64], cycle: usize, block: usize, rows_at_once: usize) -> Vec<i64> {
        let read = |splits: Vec<usize>| {
            let first = 10 * i64::try_from(splits[0]).unwrap();
            let mut ids: VecDeque<i64> = (first..first + lens[splits[0]]).collect();
            flow::from_fn(schema(), move || {
                let ids: Int64Array = ids.drain(..rows_at_once.min(ids.len())).collect::<Vec<_>>().into();
                let batch = RecordBatch::try_new(schema(), vec![Arc::new(ids)]).unwrap();
                Ok((batch.num_rows() > 0).then_some(batch))
            })
        };
        let files = (0..lens.len()).map(|file| vec![file]).collect();
        let mut flow = Interleave { cycle, block }.interleaved(schema(), files, Box::new(read));
        let mut ids = Vec::new();
        while let Some(batch) = flow.next().unwrap() {
            ids.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
        ids
    }

    #[test]
    fn a_file_that_ends_leaves_its_place_when_the_next_turn_comes() {
        // The order is that of tf.data. When a file ends within its block, the next file of the
        // cycle follows immediately. The free position is filled when the cycle reaches it again.
        for rows_at_once in [1, 3, 100] {
            let of = |lens: &[i64], cycle, block| order(lens, cycle, block, rows_at_once);
            assert_eq!(of(&[5, 1, 4], 2, 2), [0, 1, 10, 2, 3, 20, 21, 4, 22, 23]);
            assert_eq!(of(&[5, 1, 4], 1, 2), [0, 1, 2, 3, 4, 10, 20, 21, 22, 23]);
            assert_eq!(of(&[2, 3, 1], 3, 1), [0, 10, 20, 1, 11, 12]);
            assert_eq!(of(&[2, 3, 1], 100, 1), [0, 10, 20, 1, 11, 12]);
            assert_eq!(of(&[0, 2, 0, 1], 2, 1), [10, 11, 30]);
            assert!(of(&[0, 0], 2, 2).is_empty() && of(&[], 2, 2).is_empty());
        }
    }
}
