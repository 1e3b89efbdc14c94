//! The steps of a conversion, read from what the user wrote: a list of steps on tensors, steps on records,
//! and steps that lead from one to the other. A recipe among them is the steps that it names.
//!
//! A format may request steps, but does not apply them itself. A writer requests names and rows
//! that the programs of its format expect (`TensorWriter::steps`); these run after the user's
//! steps. A reader may request steps that run before them (`CatalogSink::step`). Both are applied
//! like the user's steps, reported as notes and verified. Neither may name a file. A file that a
//! writer opens in the model's folder (`Context::input_folder`) counts as carried by its output. A
//! reader may add files to the output folder (`CatalogSink::sidecar`).

pub mod recipe;

use std::sync::Arc;
use tensorferry_core::context::suggest::or_which;
use tensorferry_sdk::{Error, Result};
use tensorferry_tensors::cast::dtype_called;
use tensorferry_tensors::steps::signature::Signature;
use tensorferry_tensors::steps::spec::Spec;
use tensorferry_tensors::steps::{Step, TENSOR_KINDS, TensorAction};

/// Maximum depth of recipes that name recipes.
const MAX_NESTED: usize = 8;

/// What a step of a conversion acts on, and what a step on tensors does.
#[derive(Debug)]
pub enum StepAction {
    /// Makes another catalog of tensors.
    Tensor(TensorAction),
    /// Does something else, which the layer of records makes of the spec.
    Other(OtherSide),
}

/// What a step acts on that is no step on tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherSide {
    /// Makes another flow of records.
    Records,
    /// Makes tensors of records, or records of tensors.
    Crossing,
}

/// A step on tensors, on records, or from one to the other.
pub type AnyStep = Step<StepAction>;

/// The kinds of steps that a program has beside those on tensors.
pub trait OtherSteps {
    /// What may be given to each of them.
    fn signatures(&self) -> Vec<&'static Signature>;

    /// Which side a step is on, if there is one of this name.
    ///
    /// # Errors
    /// Usage: what the step is not given.
    fn side(&self, spec: &Spec) -> Option<Result<OtherSide>>;
}

/// What may be given to every kind of step; recipes are not among them.
#[must_use]
pub fn signatures(others: &dyn OtherSteps) -> Vec<&'static Signature> {
    TENSOR_KINDS.iter().map(|kind| kind.signature).chain(others.signatures()).collect()
}

/// Reads steps, recipes among them.
///
/// # Errors
/// Usage: which of them, and where in it.
pub fn parse(texts: &[String], others: &dyn OtherSteps) -> Result<Vec<AnyStep>> {
    let mut steps = Vec::new();
    for (number, text) in (1..).zip(texts) {
        let made = Spec::parse(text).and_then(|spec| make(&spec, others, 0));
        steps.extend(made.map_err(|error| error.context(format!("step {number} ({text})")))?);
    }
    Ok(steps)
}

/// Makes a step of a spec, or the steps of a recipe; `depth` recipes lead to it.
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
        return Err(Error::usage(format!("recipes name each other more than {MAX_NESTED} deep")));
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

/// No steps but those on tensors.
struct NoSteps;

impl OtherSteps for NoSteps {
    fn signatures(&self) -> Vec<&'static Signature> {
        Vec::new()
    }

    fn side(&self, _: &Spec) -> Option<Result<OtherSide>> {
        None
    }
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
    parse(texts, &NoSteps).and_then(on_tensors).map_err(blame)
}

const ON_RECORDS: &str = "a step on records, and the input holds tensors: see `ferry steps`";
const BOTH_TENSORS: &str = "both sides are tensors: nothing becomes records";

/// The steps of a conversion whose both sides are tensors.
///
/// # Errors
/// Usage: a step on records, or one that leads there.
pub fn on_tensors(steps: Vec<AnyStep>) -> Result<Vec<Step<TensorAction>>> {
    steps.into_iter().map(|step| tensor_step(step, ON_RECORDS, BOTH_TENSORS)).collect()
}

/// A step that has to be one on tensors; else why one on records, or one that leads there, does not fit.
///
/// # Errors
/// Usage.
pub fn tensor_step(step: AnyStep, on_records: &str, crossing: &str) -> Result<Step<TensorAction>> {
    match step.action {
        StepAction::Tensor(action) => Ok(Step { spec: step.spec, recipe: step.recipe, action }),
        StepAction::Other(OtherSide::Records) => Err(Error::usage(on_records).context(step)),
        StepAction::Other(OtherSide::Crossing) => Err(Error::usage(crossing).context(step)),
    }
}

#[cfg(test)]
mod tests;
