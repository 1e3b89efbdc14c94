//! The step `repeat` outputs all records several times.

use super::{RecordAction, RecordStep, Upstream};
use crate::flow::{self, Flow};
use tensorferry_sdk::Result;
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Signature};

pub(super) static REPEAT: Signature = Signature {
    name: "repeat",
    summary: "repeat all records COUNT times",
    details: "Without a count, or with -1, repeats without end; a take must follow. A shuffle before it uses a\n\
              new order in each epoch.",
    argument: ArgumentSpec::Optional("COUNT", "number of times; -1 (the default) repeats without end"),
    keys: &[],
    selects: false,
    examples: &["repeat:3"],
};

#[derive(Debug)]
struct Repeat {
    /// Number of repetitions; `None` repeats the records without end.
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
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        let mut flow = upstream.flow()?;
        let (mut epoch, mut times, mut is_empty) = (0, self.times, true);
        Ok(flow::from_fn(flow.schema(), move || {
            while times.is_none_or(|times| epoch < times) {
                if let Some(batch) = flow.next()? {
                    is_empty = false;
                    return Ok(Some(batch));
                }
                // If the input is empty, repeating it never yields a record, so the loop would
                // never end.
                if is_empty {
                    break;
                }
                epoch += 1;
                is_empty = true;
                if times.is_none_or(|times| epoch < times) {
                    flow = Upstream { epoch, ..upstream }.flow()?;
                }
            }
            times = Some(0);
            Ok(None)
        }))
    }

    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows?.checked_mul(self.times?)
    }

    fn is_endless(&self, upstream: bool) -> bool {
        upstream || self.times.is_none()
    }
}
