//! `repeat` goes through the records again and again.

use super::{RecordAction, RecordStep, Upstream};
use crate::records::flow::Flow;
use crate::steps::signature::{Argument, CheckedSpec, Signature};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tensorferry_sdk::{Result, arrow_array, arrow_schema};

pub(super) static REPEAT: Signature = Signature {
    name: "repeat",
    summary: "all records, COUNT times over",
    details: "Without a count, or with -1, without end: a take has to follow. What a shuffle before it does,\n\
              it does anew in each epoch.",
    argument: Argument::Optional("COUNT", "how often; -1, without end, unless told"),
    keys: &[],
    selects: false,
    examples: &["repeat:3"],
};

#[derive(Debug)]
struct Repeat {
    /// `None`: without end.
    times: Option<u64>,
}

pub(super) fn repeat(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let times = match spec.argument() {
        None => None,
        Some(field) if field.text == "-1" => None,
        Some(field) => Some(field.number()?),
    };
    Ok(Box::new(Repeat { times }))
}

impl RecordStep for Repeat {
    fn apply<'scope, 'env: 'scope>(
        &'env self,
        upstream: Upstream<'scope, 'env>,
    ) -> Result<Box<dyn Flow + 'scope>> {
        let flow = upstream.flow()?;
        Ok(Box::new(Repeated {
            schema: flow.schema(),
            flow,
            upstream,
            epoch: 0,
            times: self.times,
            is_empty: true,
        }))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows?.checked_mul(self.times?)
    }

    fn is_endless(&self, upstream: bool) -> bool {
        upstream || self.times.is_none()
    }
}

struct Repeated<'scope, 'env: 'scope> {
    schema: SchemaRef,
    flow: Box<dyn Flow + 'scope>,
    upstream: Upstream<'scope, 'env>,
    epoch: u64,
    times: Option<u64>,
    /// Whether nothing has come in this epoch.
    is_empty: bool,
}

impl Flow for Repeated<'_, '_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.times.is_none_or(|times| self.epoch < times) {
            if let Some(batch) = self.flow.next()? {
                self.is_empty = false;
                return Ok(Some(batch));
            }
            // Of nothing there is no more, however often one asks.
            if self.is_empty {
                break;
            }
            self.epoch += 1;
            self.is_empty = true;
            if self.times.is_none_or(|times| self.epoch < times) {
                self.flow = Upstream { epoch: self.epoch, ..self.upstream }.flow()?;
            }
        }
        self.times = Some(0);
        Ok(None)
    }
}
