//! The steps of a conversion, read from what the user wrote: a list of steps on tensors, steps on records,
//! and steps that lead from one to the other. A recipe among them is the steps that it names.

#[cfg(feature = "records")]
pub mod divide;
pub mod recipe;

#[cfg(feature = "records")]
use crate::bridge::crossing::{CROSSING_KINDS, Crossing};
use crate::context::suggest::or_which;
#[cfg(feature = "records")]
use crate::records::steps::{RECORD_KINDS, RecordAction, check_end};
use crate::steps::signature::Signature;
use crate::steps::spec::Spec;
use crate::steps::{Step, StepKind, TENSOR_KINDS, TensorAction};
use std::sync::Arc;
use tensorferry_sdk::{Error, Result};

/// Recipes may name recipes so deep.
const MOST_NESTED: usize = 8;

/// What a step of a conversion acts on, and what it does.
#[derive(Debug)]
pub enum StepAction {
    /// Makes another catalog of tensors.
    Tensor(TensorAction),
    /// Makes another flow of records.
    #[cfg(feature = "records")]
    Record(RecordAction),
    /// Makes tensors of records, or records of tensors.
    #[cfg(feature = "records")]
    Crossing(Crossing),
}

/// A step on tensors, on records, or from one to the other.
pub(crate) type AnyStep = Step<StepAction>;

/// What may be given to every kind of step; recipes are not among them.
pub fn signatures() -> impl Iterator<Item = &'static Signature> + Clone {
    let tensors = TENSOR_KINDS.iter().map(|kind| kind.signature);
    #[cfg(feature = "records")]
    let tensors = tensors
        .chain(RECORD_KINDS.iter().map(|kind| kind.signature))
        .chain(CROSSING_KINDS.iter().map(|kind| kind.signature));
    tensors
}

/// Reads steps, recipes among them.
///
/// # Errors
/// Usage: which of them, and where in it.
pub fn parse(texts: &[String]) -> Result<Vec<AnyStep>> {
    let mut steps = Vec::new();
    for (number, text) in (1..).zip(texts) {
        let made = Spec::parse(text).and_then(|spec| make(&spec, 0));
        steps.extend(made.map_err(|error| error.context(format!("step {number} ({text})")))?);
    }
    Ok(steps)
}

/// Makes a step of a spec, or the steps of a recipe; `depth` recipes lead to it.
fn make(spec: &Spec, depth: usize) -> Result<Vec<AnyStep>> {
    fn find<A>(kinds: &[StepKind<A>], spec: &Spec, of: fn(A) -> StepAction) -> Option<Result<StepAction>> {
        kinds.iter().find_map(|kind| kind.action(spec)).map(|action| action.map(of))
    }
    let action = find(TENSOR_KINDS, spec, StepAction::Tensor);
    #[cfg(feature = "records")]
    let action = action
        .or_else(|| find(RECORD_KINDS, spec, StepAction::Record))
        .or_else(|| find(CROSSING_KINDS, spec, StepAction::Crossing));
    if let Some(action) = action {
        return Ok(vec![Step { spec: spec.clone(), recipe: None, action: action? }]);
    }
    let Some(specs) = recipe::steps(spec)? else {
        let names = signatures().map(|signature| signature.name).chain(recipe::names());
        let which = or_which(&spec.name, names);
        return Err(Error::usage(format!("there is no step or recipe {:?}{which}", spec.name)));
    };
    if depth >= MOST_NESTED {
        return Err(Error::usage(format!("recipes name each other more than {MOST_NESTED} deep")));
    }
    let recipe = Arc::new(spec.clone());
    let mut steps = Vec::new();
    for (number, step) in (1..).zip(&specs) {
        let made = make(step, depth + 1);
        let made = made.map_err(|error| error.context(format!("step {number} of {} ({step})", spec.name)))?;
        steps.extend(made.into_iter().map(|step| Step { recipe: Some(recipe.clone()), ..step }));
    }
    Ok(steps)
}

/// The steps on tensors that a format asks for; a format names no files of the user's.
///
/// # Errors
/// A plugin error, for what is no step on tensors.
pub fn of_format(texts: &[String]) -> Result<Vec<Step<TensorAction>>> {
    let is_file = |text: &&String| text.trim_start().starts_with(['@', '"']);
    let blame =
        |error: Error| Error::plugin(format!("the format asks for a step that there is not: {error}"));
    if let Some(text) = texts.iter().find(is_file) {
        return Err(blame(Error::usage("a recipe in a file").found(text)));
    }
    parse(texts).and_then(on_tensors).map_err(blame)
}

#[cfg(feature = "records")]
const ON_TENSORS: &str = "a step on tensors, and the input holds records: see `ferry steps`";
const ON_RECORDS: &str = "a step on records, and the input holds tensors: see `ferry steps`";
const BOTH_TENSORS: &str = "both sides are tensors: nothing becomes records";
#[cfg(feature = "records")]
const BOTH_RECORDS: &str = "both sides are records: nothing becomes tensors";

/// The steps of a conversion whose both sides are tensors.
///
/// # Errors
/// Usage: a step on records, or one that leads there.
pub fn on_tensors(steps: Vec<AnyStep>) -> Result<Vec<Step<TensorAction>>> {
    steps.into_iter().map(|step| tensor_step(step, ON_RECORDS, BOTH_TENSORS)).collect()
}

/// The steps of a conversion whose both sides are records; what they give has an end.
///
/// # Errors
/// Usage: a step on tensors, one that leads there, or records without end.
#[cfg(feature = "records")]
pub fn on_records(steps: Vec<AnyStep>) -> Result<Vec<Step<RecordAction>>> {
    let steps = steps.into_iter().map(|step| record_step(step, ON_TENSORS, BOTH_RECORDS));
    let steps: Vec<_> = steps.collect::<Result<_>>()?;
    check_end(&steps)?;
    Ok(steps)
}

/// Checks that a step means the same for each unit of a data set as for all of it.
///
/// # Errors
/// Usage.
#[cfg(feature = "records")]
pub fn check_row_wise(step: &AnyStep) -> Result<()> {
    let why = match &step.action {
        StepAction::Record(action) if action.is_row_wise() => return Ok(()),
        StepAction::Record(_) => "needs all records in one flow, and a data set is converted unit by unit",
        StepAction::Tensor(_) => ON_TENSORS,
        StepAction::Crossing(_) => BOTH_RECORDS,
    };
    Err(Error::usage(why).context(step))
}

/// A step that has to be one on tensors; else why one on records, or one that leads there, does not fit.
#[cfg_attr(not(feature = "records"), expect(unused_variables, reason = "every step is one on tensors then"))]
fn tensor_step(step: AnyStep, on_records: &str, crossing: &str) -> Result<Step<TensorAction>> {
    match step.action {
        StepAction::Tensor(action) => Ok(Step { spec: step.spec, recipe: step.recipe, action }),
        #[cfg(feature = "records")]
        StepAction::Record(_) => Err(Error::usage(on_records).context(step)),
        #[cfg(feature = "records")]
        StepAction::Crossing(_) => Err(Error::usage(crossing).context(step)),
    }
}

/// A step that has to be one on records; else why one on tensors, or one that leads there, does not fit.
#[cfg(feature = "records")]
fn record_step(step: AnyStep, on_tensors: &str, crossing: &str) -> Result<Step<RecordAction>> {
    match step.action {
        StepAction::Record(action) => Ok(Step { spec: step.spec, recipe: step.recipe, action }),
        StepAction::Tensor(_) => Err(Error::usage(on_tensors).context(step)),
        StepAction::Crossing(_) => Err(Error::usage(crossing).context(step)),
    }
}

#[cfg(test)]
mod tests;
