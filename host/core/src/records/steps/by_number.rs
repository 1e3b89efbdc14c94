//! `take`, `skip` and `shard` let some rows through by their number.

use super::gather::gather;
use super::{RecordAction, RecordStep, Upstream};
use crate::records::flow::Flow;
use crate::steps::signature::{Argument, CheckedSpec, Key, Signature};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use std::slice::from_ref;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};

pub(super) static TAKE: Signature = Signature {
    name: "take",
    summary: "the first N records",
    details: "",
    argument: Argument::Required("N", "how many records"),
    keys: &[],
    selects: false,
    examples: &["take:1000"],
};

pub(super) static SKIP: Signature = Signature {
    name: "skip",
    summary: "all but the first N records",
    details: "",
    argument: Argument::Required("N", "how many records"),
    keys: &[],
    selects: false,
    examples: &["skip:1000"],
};

pub(super) static SHARD: Signature = Signature {
    name: "shard",
    summary: "every N-th record, from record I on",
    details: "The N shards of one input are all of it, and none has a record of another.",
    argument: Argument::Required("N", "how many shards there are"),
    keys: &[Key::one("index", "I", "which of them, from 0")],
    selects: false,
    examples: &["shard:8,index=0"],
};

pub(super) fn take(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    Ok(Box::new(Take { rows: spec.required_argument()?.number()? }))
}

pub(super) fn skip(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    Ok(Box::new(Skip { rows: spec.required_argument()?.number()? }))
}

pub(super) fn shard(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let field = spec.required_argument()?;
    let (of, index): (u64, u64) = (field.number()?, spec.required("index")?.number()?);
    if of == 0 || index >= of {
        return Err(field.error(format!("expected an index below {of}, found {index}")));
    }
    Ok(Box::new(Shard { of, index }))
}

#[derive(Debug)]
struct Take {
    rows: u64,
}

impl RecordStep for Take {
    fn apply<'scope, 'env: 'scope>(
        &'env self,
        upstream: Upstream<'scope, 'env>,
    ) -> Result<Box<dyn Flow + 'scope>> {
        Ok(Box::new(Window { flow: upstream.flow()?, skip: 0, take: self.rows }))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows.map(|rows| rows.min(self.rows))
    }

    fn is_endless(&self, _upstream: bool) -> bool {
        false
    }
}

#[derive(Debug)]
struct Skip {
    rows: u64,
}

impl RecordStep for Skip {
    fn apply<'scope, 'env: 'scope>(
        &'env self,
        upstream: Upstream<'scope, 'env>,
    ) -> Result<Box<dyn Flow + 'scope>> {
        Ok(Box::new(Window { flow: upstream.flow()?, skip: self.rows, take: u64::MAX }))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows.map(|rows| rows.saturating_sub(self.rows))
    }
}

/// A run of rows of a flow.
struct Window<'a> {
    flow: Box<dyn Flow + 'a>,
    skip: u64,
    take: u64,
}

impl Flow for Window<'_> {
    fn schema(&self) -> SchemaRef {
        self.flow.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.take > 0 {
            let Some(batch) = self.flow.next()? else { break };
            let rows = batch.num_rows() as u64;
            let skipped = self.skip.min(rows);
            self.skip -= skipped;
            let taken = self.take.min(rows - skipped);
            if taken > 0 {
                self.take -= taken;
                // Both are at most the batch's rows.
                let (from, len) =
                    (usize::try_from(skipped).unwrap_or(0), usize::try_from(taken).unwrap_or(0));
                return Ok(Some(batch.slice(from, len)));
            }
        }
        Ok(None)
    }
}

#[derive(Debug)]
struct Shard {
    of: u64,
    index: u64,
}

impl RecordStep for Shard {
    fn apply<'scope, 'env: 'scope>(
        &'env self,
        upstream: Upstream<'scope, 'env>,
    ) -> Result<Box<dyn Flow + 'scope>> {
        Ok(Box::new(Sharded { flow: upstream.flow()?, of: self.of, index: self.index, row: 0 }))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows.map(|rows| rows.saturating_sub(self.index).div_ceil(self.of))
    }
}

struct Sharded<'a> {
    flow: Box<dyn Flow + 'a>,
    of: u64,
    index: u64,
    /// The number of the next batch's first row.
    row: u64,
}

impl Flow for Sharded<'_> {
    fn schema(&self) -> SchemaRef {
        self.flow.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.flow.next()? {
            let first = self.row;
            self.row += batch.num_rows() as u64;
            let kept: BooleanArray = (first..self.row).map(|row| Some(row % self.of == self.index)).collect();
            if kept.true_count() > 0 {
                return Ok(Some(kept_rows(&batch, &kept)?));
            }
        }
        Ok(None)
    }
}

/// The rows of a batch for which `kept` is true.
pub(super) fn kept_rows(batch: &RecordBatch, kept: &BooleanArray) -> Result<RecordBatch> {
    let runs: Vec<_> = kept.values().set_slices().map(|(start, end)| (0, start..end)).collect();
    gather(&batch.schema(), from_ref(batch), &runs).map_err(|e| Error::unsupported(e.to_string()))
}
