//! Parses the steps of a conversion: steps on tensors, steps on records, and steps that convert
//! between tensors and records. A recipe is replaced by its steps.

pub mod recipe;

use std::sync::Arc;
use tensorferry_core::context::suggest::or_which;
use tensorferry_sdk::{Error, Result};
use tensorferry_tensors::cast::dtype_called;
use tensorferry_tensors::steps::signature::Signature;
use tensorferry_tensors::steps::spec::Spec;
use tensorferry_tensors::steps::{Step, TENSOR_KINDS, TensorAction};

/// Maximum nesting of recipes.
const MAX_NESTED: usize = 8;

/// The action that a step performs, on tensors or on something else.
#[derive(Debug)]
pub enum StepAction {
    /// The step changes the catalog of tensors.
    Tensor(TensorAction),
    /// The records layer implements the action, based on the step's spec.
    Other(OtherSide),
}

/// Kinds of steps that are not steps on tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherSide {
    /// The step changes the flow of records.
    Records,
    /// The step converts records to tensors, or tensors to records.
    Crossing,
}

pub type AnyStep = Step<StepAction>;

/// The steps that a program supports in addition to steps on tensors.
pub trait OtherSteps {
    fn signatures(&self) -> Vec<&'static Signature>;

    /// Returns the object that a step acts on, or `None` if the step does not exist.
    fn side(&self, spec: &Spec) -> Option<Result<OtherSide>>;
}

/// Returns the signatures of all built-in steps, without recipes.
#[must_use]
pub fn signatures(others: &dyn OtherSteps) -> Vec<&'static Signature> {
    TENSOR_KINDS.iter().map(|kind| kind.signature).chain(others.signatures()).collect()
}

/// Parses steps and recipes.
pub fn parse(texts: &[String], others: &dyn OtherSteps) -> Result<Vec<AnyStep>> {
    let mut steps = Vec::new();
    for (number, text) in (1..).zip(texts) {
        let made = Spec::parse(text).and_then(|spec| make(&spec, others, 0));
        steps.extend(made.map_err(|error| error.context(format!("step {number} ({text})")))?);
    }
    Ok(steps)
}

/// Creates a step from a spec. If the spec names a recipe, creates the steps of the recipe. `depth`
/// is the number of recipes that enclose the spec.
fn make(spec: &Spec, others: &dyn OtherSteps, depth: usize) -> Result<Vec<AnyStep>> {
    let on_tensors = TENSOR_KINDS.iter().find_map(|kind| kind.action(spec));
    let action = on_tensors.map(|action| action.map(StepAction::Tensor));
    if let Some(action) = action.or_else(|| Some(others.side(spec)?.map(StepAction::Other))) {
        return Ok(vec![Step { spec: spec.clone(), recipe: None, action: action? }]);
    }
    let Some(specs) = recipe::steps(spec)? else {
        let names: Vec<&str> =
            signatures(others).into_iter().map(|signature| signature.name).chain(recipe::names()).collect();
        let error = |which| Error::usage(format!("unknown step or recipe {:?}{which}", spec.name));
        return Err(match spec.name.split_once('=') {
            Some((name, argument)) if names.contains(&name) => {
                error(String::new()).hint(format!("pass --step {name}:{argument}"))
            }
            _ if dtype_called(&spec.name).is_some() => {
                error(String::new()).hint(format!("pass --step cast:{}", spec.name))
            }
            _ => error(or_which(&spec.name, names)),
        });
    };
    if depth >= MAX_NESTED {
        return Err(Error::usage(format!("recipes are nested more than {MAX_NESTED} levels deep")));
    }
    let recipe = Arc::new(spec.clone());
    let mut steps = Vec::new();
    for (number, step) in (1..).zip(&specs) {
        let made = make(step, others, depth + 1);
        let made = made.map_err(|error| error.context(format!("step {number} of {} ({step})", spec.name)))?;
        steps.extend(made.into_iter().map(|step| Step { recipe: Some(recipe.clone()), ..step }));
    }
    Ok(steps)
}

/// The implementation for callers that accept only steps on tensors.
struct NoSteps;

impl OtherSteps for NoSteps {
    fn signatures(&self) -> Vec<&'static Signature> {
        Vec::new()
    }

    fn side(&self, _: &Spec) -> Option<Result<OtherSide>> {
        None
    }
}

/// Parses the steps on tensors that a format requests. A format cannot refer to recipes in files.
pub fn of_format(texts: &[String]) -> Result<Vec<Step<TensorAction>>> {
    let is_file = |text: &&String| text.trim_start().starts_with(['@', '"']);
    let blame = |error: Error| Error::plugin(format!("the format requests an invalid step: {error}"));
    if let Some(text) = texts.iter().find(is_file) {
        return Err(blame(Error::usage("a recipe in a file").found(text)));
    }
    parse(texts, &NoSteps).and_then(on_tensors).map_err(blame)
}

const ON_RECORDS: &str = "this step is for records, but the input holds tensors";
const BOTH_TENSORS: &str = "both sides are tensors, so this step does not apply";

/// Checks that all steps act on tensors. Conversions from tensors to tensors require such steps.
pub fn on_tensors(steps: Vec<AnyStep>) -> Result<Vec<Step<TensorAction>>> {
    steps.into_iter().map(|step| tensor_step(step, ON_RECORDS, BOTH_TENSORS)).collect()
}

/// Returns the step, if the step works on tensors. `on_records` is the error message for a step on
/// records. `crossing` is the error message for a step that converts between tensors and records.
pub fn tensor_step(step: AnyStep, on_records: &str, crossing: &str) -> Result<Step<TensorAction>> {
    match step.action {
        StepAction::Tensor(action) => Ok(Step { spec: step.spec, recipe: step.recipe, action }),
        StepAction::Other(OtherSide::Records) => Err(Error::usage(on_records).context(step)),
        StepAction::Other(OtherSide::Crossing) => Err(Error::usage(crossing).context(step)),
    }
}

#[cfg(test)]
mod tests;
