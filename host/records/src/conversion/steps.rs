//! The steps of a conversion that involve records.

use crate::bridge::crossing::{CROSSING_KINDS, Crossing};
use crate::steps::{RECORD_KINDS, RecordAction, check_end};
use tensorferry_convert::steps::{AnyStep, OtherSide, OtherSteps, StepAction};
use tensorferry_sdk::{Error, Result};
use tensorferry_tensors::steps::signature::Signature;
use tensorferry_tensors::steps::spec::Spec;
use tensorferry_tensors::steps::{Step, StepKind};

const ON_TENSORS: &str = "needs tensors, but the input holds records";
const BOTH_RECORDS: &str = "does not apply if both the input and the output contain records";

/// The steps on records, and the steps that convert between records and tensors.
#[derive(Debug, Clone, Copy)]
pub struct Records;

impl OtherSteps for Records {
    fn signatures(&self) -> Vec<&'static Signature> {
        let crossings = CROSSING_KINDS.iter().map(|kind| kind.signature);
        RECORD_KINDS.iter().map(|kind| kind.signature).chain(crossings).collect()
    }

    fn side(&self, spec: &Spec) -> Option<Result<OtherSide>> {
        let records = action(RECORD_KINDS, spec).map(|action| action.map(|_| OtherSide::Records));
        records.or_else(|| Some(action(CROSSING_KINDS, spec)?.map(|_| OtherSide::Crossing)))
    }
}

fn action<A>(kinds: &[StepKind<A>], spec: &Spec) -> Option<Result<A>> {
    kinds.iter().find_map(|kind| kind.action(spec))
}

/// Creates a step's action. The caller has already checked that a step with this name exists.
fn made<A>(kinds: &[StepKind<A>], step: AnyStep) -> Result<Step<A>> {
    let none = || Err(Error::plugin(format!("no step {:?}", step.spec.name)));
    let action = action(kinds, &step.spec).unwrap_or_else(none)?;
    Ok(step.map(|_| action))
}

pub(super) fn crossing(step: AnyStep) -> Result<Step<Crossing>> {
    made(CROSSING_KINDS, step)
}

/// Returns the steps of a conversion between records, and checks that their output is finite.
pub fn on_records(steps: Vec<AnyStep>) -> Result<Vec<Step<RecordAction>>> {
    let steps = steps.into_iter().map(|step| record_step(step, ON_TENSORS, BOTH_RECORDS));
    let steps: Vec<_> = steps.collect::<Result<_>>()?;
    check_end(&steps)?;
    Ok(steps)
}

/// Checks that applying a step to each unit of a dataset gives the same result as applying it to
/// the whole dataset.
pub fn check_row_wise(step: AnyStep) -> Result<()> {
    let step = record_step(step, ON_TENSORS, BOTH_RECORDS)?;
    if step.action.is_row_wise() {
        return Ok(());
    }
    let why = "needs all records in one flow, but a dataset is converted unit by unit";
    Err(Error::usage(why).context(step))
}

/// Returns the step if it applies to records. `on_tensors` is the error message for a step on
/// tensors. `crossing` is the error message for a step that converts between tensors and records.
pub(super) fn record_step(step: AnyStep, on_tensors: &str, crossing: &str) -> Result<Step<RecordAction>> {
    match step.action {
        StepAction::Other(OtherSide::Records) => made(RECORD_KINDS, step),
        StepAction::Tensor(_) => {
            Err(Error::usage(on_tensors).hint("run `ferry steps` to list the steps").context(step))
        }
        StepAction::Other(OtherSide::Crossing) => Err(Error::usage(crossing).context(step)),
    }
}
