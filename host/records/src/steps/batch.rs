//! The step `batch` combines several records into one record. The values of each column become a
//! list.

use super::gather::join;
use super::{RecordAction, RecordStep, Upstream};
use crate::flow::Flow;
use arrow_array::{ArrayRef, FixedSizeListArray, ListArray, RecordBatch};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Key, Signature};

pub(super) static BATCH: Signature = Signature {
    name: "batch",
    summary: "combine every N records into one",
    details: "Each column gets one more dimension; with drop_remainder its length is fixed.",
    argument: ArgumentSpec::Required("N", "number of records to combine"),
    keys: &[Key::optional(
        "drop_remainder",
        "true|false",
        "drop a last record of fewer than N [default: false]",
    )],
    selects: false,
    examples: &["batch:32", "batch:32,drop_remainder=true"],
};

#[derive(Debug)]
struct Batch {
    rows: usize,
    drops_remainder: bool,
}

pub(super) fn batch(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let field = spec.required_argument()?;
    let rows: usize = field.number()?;
    if rows == 0 || i32::try_from(rows).is_err() {
        return Err(field.error("expected at least one record, and fewer than 2^31"));
    }
    Ok(Box::new(Batch { rows, drops_remainder: spec.is_true("drop_remainder", false)? }))
}

impl RecordStep for Batch {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        let flow = upstream.flow()?;
        let schema = self.schema(&flow.schema())?;
        Ok(Box::new(Batched { schema, flow, step: self, waiting: Vec::new(), rows: 0, has_ended: false }))
    }

    fn schema(&self, upstream: &SchemaRef) -> Result<SchemaRef> {
        let list = |field: &Arc<Field>| {
            let item = Arc::new(Field::new("item", field.data_type().clone(), field.is_nullable()));
            let data_type = if self.drops_remainder {
                // The function `batch` has checked that the length fits in the type.
                DataType::FixedSizeList(item, i32::try_from(self.rows).unwrap_or(i32::MAX))
            } else {
                DataType::List(item)
            };
            Field::new(field.name(), data_type, false).with_metadata(field.metadata().clone())
        };
        let fields: Vec<Field> = upstream.fields().iter().map(list).collect();
        Ok(Arc::new(Schema::new_with_metadata(fields, upstream.metadata().clone())))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        let of = self.rows as u64;
        rows.map(|rows| if self.drops_remainder { rows / of } else { rows.div_ceil(of) })
    }
}

struct Batched<'a> {
    schema: SchemaRef,
    flow: Box<dyn Flow + 'a>,
    step: &'a Batch,
    waiting: Vec<RecordBatch>,
    rows: usize,
    has_ended: bool,
}

impl Flow for Batched<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.has_ended && self.rows < self.step.rows {
            match self.flow.next()? {
                Some(batch) => {
                    self.rows += batch.num_rows();
                    self.waiting.push(batch);
                }
                None => self.has_ended = true,
            }
        }
        let whole = self.rows / self.step.rows * self.step.rows;
        let taken = if self.has_ended && !self.step.drops_remainder { self.rows } else { whole };
        if taken == 0 {
            return Ok(None);
        }
        let joined = self.make(taken);
        joined.map(Some).map_err(|e| Error::unsupported(format!("these columns cannot be batched: {e}")))
    }
}

impl Batched<'_> {
    fn make(&mut self, taken: usize) -> Result<RecordBatch, ArrowError> {
        let all = join(&self.flow.schema(), &self.waiting)?;
        self.rows -= taken;
        self.waiting = if self.rows > 0 { vec![all.slice(taken, self.rows)] } else { Vec::new() };
        let all = all.slice(0, taken);
        let lists = all.columns().iter().zip(self.schema.fields());
        let lists = lists.map(|(column, list)| self.list(column, list.data_type()));
        RecordBatch::try_new(self.schema.clone(), lists.collect::<Result<_, _>>()?)
    }

    fn list(&self, column: &ArrayRef, list: &DataType) -> Result<ArrayRef, ArrowError> {
        let rows = self.step.rows;
        Ok(match list {
            DataType::FixedSizeList(item, len) => {
                Arc::new(FixedSizeListArray::try_new(item.clone(), *len, column.clone(), None)?)
            }
            DataType::List(item) => {
                let lens = (0..column.len()).step_by(rows).map(|begin| rows.min(column.len() - begin));
                let offsets = OffsetBuffer::from_lengths(lens);
                Arc::new(ListArray::try_new(item.clone(), offsets, column.clone(), None)?)
            }
            _ => column.clone(),
        })
    }
}
