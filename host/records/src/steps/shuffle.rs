//! The step `shuffle` keeps a buffer of records. For each record that it reads, it outputs a random
//! record from the buffer.

use super::gather::gather;
use super::{RecordAction, RecordStep, Upstream};
use crate::batch_bytes::batch_bytes;
use crate::flow::Flow;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Key, Signature};

/// Number of rows in an output batch.
const BATCH_ROWS: usize = 1024;

pub(super) static SHUFFLE: Signature = Signature {
    name: "shuffle",
    summary: "shuffle records through a buffer",
    details: "A record moves forward by at most BUFFER places; only a buffer of all records gives a uniform order.\n\
              The same seed gives the same order.",
    argument: ArgumentSpec::Required("BUFFER", "number of records in the buffer"),
    keys: &[
        Key::optional("seed", "N", "seed of the random order [default: 0]"),
        Key::optional("reshuffle", "true|false", "use a new order in each epoch of a repeat [default: true]"),
    ],
    selects: false,
    examples: &["shuffle:10000,seed=7"],
};

#[derive(Debug)]
struct Shuffle {
    buffer: usize,
    seed: u64,
    reshuffles: bool,
}

pub(super) fn shuffle(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let field = spec.required_argument()?;
    let buffer: usize = field.number()?;
    if buffer == 0 {
        return Err(field.error("the buffer must hold at least one record"));
    }
    let seed = spec.number("seed")?.unwrap_or(0);
    let reshuffles = spec.is_true("reshuffle", true)?;
    Ok(Box::new(Shuffle { buffer, seed, reshuffles }))
}

impl RecordStep for Shuffle {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        Ok(Box::new(Shuffled {
            flow: upstream.flow()?,
            step: self,
            random: random(self.seed, if self.reshuffles { upstream.epoch } else { 0 }),
            most_bytes: upstream.session.held_bytes(),
            kept: Vec::new(),
            kept_bytes: 0,
            buffer: Vec::new(),
            incoming: None,
        }))
    }
}

fn random(seed: u64, epoch: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(epoch);
    random
}

struct Shuffled<'a> {
    flow: Box<dyn Flow + 'a>,
    step: &'a Shuffle,
    random: ChaCha8Rng,
    most_bytes: u64,
    /// Batches that contain the buffer's rows.
    kept: Vec<RecordBatch>,
    kept_bytes: u64,
    /// The rows in the buffer. Each entry contains the index of a batch in `kept` and the index of
    /// a row in that batch.
    buffer: Vec<(usize, usize)>,
    /// The index in `kept` of the batch that is being read, and the index of the next row in that
    /// batch.
    incoming: Option<(usize, usize)>,
}

impl Flow for Shuffled<'_> {
    fn schema(&self) -> SchemaRef {
        self.flow.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut given = Vec::with_capacity(BATCH_ROWS);
        while given.len() < BATCH_ROWS {
            let next = self.next_location()?;
            if let Some(row) = next.filter(|_| self.buffer.len() < self.step.buffer) {
                self.buffer.push(row);
                continue;
            }
            if self.buffer.is_empty() {
                break;
            }
            let slot = self.random_below(self.buffer.len());
            given.push(match next {
                Some(row) => std::mem::replace(&mut self.buffer[slot], row),
                None => self.buffer.swap_remove(slot),
            });
        }
        if given.is_empty() {
            return Ok(None);
        }
        let batch = self.gather(&given)?;
        self.compact()?;
        Ok(Some(batch))
    }
}

impl Shuffled<'_> {
    /// Returns the location of the flow's next row. If the row is in a new batch, adds the batch to
    /// `kept`.
    fn next_location(&mut self) -> Result<Option<(usize, usize)>> {
        loop {
            if let Some((batch, row)) = self.incoming {
                if row < self.kept[batch].num_rows() {
                    self.incoming = Some((batch, row + 1));
                    return Ok(Some((batch, row)));
                }
                self.incoming = None;
            }
            let Some(batch) = self.flow.next()? else { return Ok(None) };
            self.kept_bytes += batch_bytes(&batch);
            self.incoming = Some((self.kept.len(), 0));
            self.kept.push(batch);
            if self.kept_bytes > 2 * self.most_bytes {
                self.compact()?;
            }
        }
    }

    /// Returns a random number below `len`. All numbers are equally likely (Lemire's method:
    /// multiplication with rejection).
    fn random_below(&mut self, len: usize) -> usize {
        let len = len as u64;
        loop {
            let product = u128::from(self.random.next_u64()) * u128::from(len);
            let low = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(0);
            if low >= len.wrapping_neg() % len {
                return usize::try_from(product >> 64).unwrap_or(0);
            }
        }
    }

    fn gather(&self, rows: &[(usize, usize)]) -> Result<RecordBatch> {
        let runs: Vec<_> = rows.iter().map(|&(batch, row)| (batch, row..row + 1)).collect();
        gather(&self.flow.schema(), &self.kept, &runs)
            .map_err(|e| Error::unsupported(format!("these columns cannot be shuffled: {e}")))
    }

    /// Copies the rows that are still needed to new batches, so that batches with few needed rows
    /// are released.
    fn compact(&mut self) -> Result<()> {
        let rows: usize = self.kept.iter().map(RecordBatch::num_rows).sum();
        let rest = self.incoming.map_or(0, |(batch, row)| self.kept[batch].num_rows() - row);
        let live = self.buffer.len() + rest;
        if rows < 2 * live + BATCH_ROWS && self.kept_bytes <= 2 * self.most_bytes {
            return Ok(());
        }
        let mut kept: Vec<(usize, usize)> = self.buffer.clone();
        if let Some((batch, row)) = self.incoming {
            kept.extend((row..self.kept[batch].num_rows()).map(|row| (batch, row)));
        }
        let all = self.gather(&kept)?;
        let held = self.buffer.len();
        self.kept_bytes = batch_bytes(&all);
        if self.kept_bytes > self.most_bytes {
            let error = Error::limit("the shuffle buffer does not fit in memory")
                .hint("raise --memory, or use a smaller buffer");
            return Err(error.expected(format!("at most {} bytes", self.most_bytes)).found(self.kept_bytes));
        }
        let rest = all.slice(held, all.num_rows() - held);
        self.buffer = (0..held).map(|row| (0, row)).collect();
        self.incoming = (rest.num_rows() > 0).then_some((1, 0));
        self.kept = vec![all.slice(0, held), rest];
        Ok(())
    }
}
