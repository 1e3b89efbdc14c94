//! The steps `take`, `skip` and `shard` select rows by their position.

use super::gather::gather;
use super::{Pushdown, RecordAction, RecordStep, Upstream};
use crate::flow::{self, Flow};
use arrow_array::{BooleanArray, RecordBatch};
use std::slice::from_ref;
use tensorferry_sdk::{Error, Result, arrow_array};
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Key, Signature};

pub(super) static TAKE: Signature = Signature {
    name: "take",
    summary: "keep the first N records",
    details: "",
    argument: ArgumentSpec::Required("N", "how many records"),
    keys: &[],
    selects: false,
    examples: &["take:1000"],
};

pub(super) static SKIP: Signature = Signature {
    name: "skip",
    summary: "skip the first N records",
    details: "",
    argument: ArgumentSpec::Required("N", "how many records"),
    keys: &[],
    selects: false,
    examples: &["skip:1000"],
};

pub(super) static SHARD: Signature = Signature {
    name: "shard",
    summary: "keep every N-th record, from record I on",
    details: "The N shards of one input together contain each of its records exactly once.",
    argument: ArgumentSpec::Required("N", "number of shards"),
    keys: &[Key::one("index", "I", "index of this shard, from 0")],
    selects: false,
    examples: &["shard:8,index=0"],
};

/// Returns the action of a step that takes or skips the first records.
pub(super) fn window(spec: &CheckedSpec<'_>, takes: bool) -> Result<RecordAction> {
    let rows = spec.required_argument()?.number()?;
    Ok(Box::new(if takes { Window { skip: 0, take: Some(rows) } } else { Window { skip: rows, take: None } }))
}

pub(super) fn shard(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let field = spec.required_argument()?;
    let (of, index): (u64, u64) = (field.number()?, spec.required("index")?.number()?);
    if of == 0 || index >= of {
        return Err(field.error(format!("expected an index below {of}, found {index}")));
    }
    Ok(Box::new(Shard { of, index }))
}

/// A contiguous range of a flow's rows.
#[derive(Debug)]
struct Window {
    skip: u64,
    /// Number of rows after the skipped rows; `None` for all rows up to the end.
    take: Option<u64>,
}

impl RecordStep for Window {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        Ok(flow::window(upstream.flow()?, self.skip, self.take))
    }

    fn pushdown(&self) -> Pushdown<'_> {
        Pushdown::Window { skip: self.skip, take: self.take }
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows.map(|rows| rows.saturating_sub(self.skip).min(self.take.unwrap_or(u64::MAX)))
    }

    fn is_endless(&self, upstream: bool) -> bool {
        upstream && self.take.is_none()
    }
}

#[derive(Debug)]
struct Shard {
    of: u64,
    index: u64,
}

impl RecordStep for Shard {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        let mut flow = upstream.flow()?;
        // The position of the next batch's first row.
        let mut row = 0;
        Ok(flow::from_fn(flow.schema(), move || {
            while let Some(batch) = flow.next()? {
                let first = row;
                row += batch.num_rows() as u64;
                let kept: BooleanArray = (first..row).map(|row| Some(row % self.of == self.index)).collect();
                if kept.true_count() > 0 {
                    return kept_rows(&batch, &kept).map(Some);
                }
            }
            Ok(None)
        }))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows.map(|rows| rows.saturating_sub(self.index).div_ceil(self.of))
    }
}

/// Returns the rows of a batch for which `kept` is true.
pub(super) fn kept_rows(batch: &RecordBatch, kept: &BooleanArray) -> Result<RecordBatch> {
    let runs: Vec<_> = kept.values().set_slices().map(|(start, end)| (0, start..end)).collect();
    gather(&batch.schema(), from_ref(batch), &runs).map_err(|e| Error::unsupported(e.to_string()))
}
