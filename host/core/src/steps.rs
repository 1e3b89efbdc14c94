//! A step makes a catalog of a catalog: it selects, renames, turns, cuts or joins tensors.
//!
//! Nothing moves. A tensor is blocks over storages, so a step only says anew where its elements are read
//! from, and a chain of ten steps costs one pass over the data. [`Spec`] is how a step is
//! written, [`Kind`](kind::Kind) what steps there are; each has a file of its own here. A recipe is a list
//! of steps under one name ([`recipe`]).
//!
//! Steps are functions of the catalog alone. What happens to a tensor happens to its place in the tree of
//! non-tensor state too: see [`replant`].

pub mod adapt;
pub mod cast;
pub mod concat;
pub mod inverse;
pub mod kind;
pub mod metadata;
pub mod pattern;
pub mod permute;
pub mod rebuild;
pub mod recipe;
pub mod regroup;
pub mod rename;
pub mod replant;
pub mod reshape;
pub mod select;
pub mod selector;
pub mod spec;
pub mod split;
pub mod tie;
pub mod view;

use crate::bridge::steps::Crossing;
use crate::context::suggest::or_which;
use crate::records::steps::RecordStep;
use kind::{Given, kinds};
use recipe::Of;
use spec::Spec;
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::{Catalog, Error, Loss, Result};

/// A step, ready to be applied.
#[derive(Debug)]
pub struct Step {
    /// How it is written; of a recipe's step, with the parameters filled in.
    pub spec: Spec,
    /// The recipe that it is a step of; the outermost, if they are nested.
    pub of: Option<Arc<Of>>,
    /// What it does.
    pub action: Action,
}

/// What a step does, by what it is for.
#[derive(Debug)]
pub enum Action {
    /// Makes another catalog of tensors.
    Tensor(Box<dyn TensorStep>),
    /// Makes another flow of records.
    Record(Box<dyn RecordStep>),
    /// Makes tensors of records, or records of tensors.
    Cross(Crossing),
}

/// A step on tensors.
pub trait TensorStep: fmt::Debug + Send + Sync {
    /// The catalog that it makes.
    ///
    /// # Errors
    /// Usage, where what the user asked for cannot be done with this catalog; unsupported, where a dtype
    /// does not allow it.
    fn apply(&self, catalog: Catalog, said: &mut Said) -> Result<Catalog>;

    /// The steps that undo it, in order.
    ///
    /// # Errors
    /// Usage, with the reason, if there are none.
    fn inverse(&self) -> Result<Vec<Spec>> {
        Err(inverse::none("what was there before does not show any more"))
    }
}

/// What a step says beside its catalog.
#[derive(Debug, Default)]
pub struct Said {
    /// What the catalog has no more, though the user did not ask for that.
    pub losses: Vec<Loss>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// How many tensors the step was about, or how many entries.
    pub touched: usize,
}

/// A catalog, and what the steps say of it.
#[derive(Debug)]
pub struct Stepped {
    /// The catalog.
    pub catalog: Catalog,
    /// What the steps said.
    pub said: Said,
}

/// Reads steps, recipes among them.
///
/// # Errors
/// Usage: which of them, and where in it.
pub fn parse(texts: &[String]) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (number, text) in (1..).zip(texts) {
        let made = Spec::parse(text).and_then(|spec| make(&spec));
        steps.extend(made.map_err(|error| error.context(format!("step {number} ({text})")))?);
    }
    Ok(steps)
}

/// Makes a step of a spec; a recipe gives several.
///
/// # Errors
/// Usage.
pub fn make(spec: &Spec) -> Result<Vec<Step>> {
    make_within(spec, 0)
}

/// Makes a step that recipes name, `depth` of them.
fn make_within(spec: &Spec, depth: usize) -> Result<Vec<Step>> {
    if let Some(kind) = kinds().find(|kind| kind.name == spec.name) {
        let action = (kind.make)(&Given::check(spec, kind)?)?;
        return Ok(vec![Step { spec: spec.clone(), of: None, action }]);
    }
    if let Some(steps) = recipe::make(spec, depth)? {
        return Ok(steps);
    }
    let names: Vec<&str> = kinds().map(|kind| kind.name).chain(recipe::names()).collect();
    Err(Error::usage(format!("there is no step or recipe {:?}{}", spec.name, or_which(&spec.name, names))))
}

/// Applies steps, one after the other.
///
/// # Errors
/// Whatever a step says, with its name.
pub fn apply(catalog: Catalog, steps: &[Step]) -> Result<Stepped> {
    let mut stepped = Stepped { catalog, said: Said::default() };
    for steps in steps.chunk_by(is_of_one_recipe) {
        stepped.said.touched = 0;
        for step in steps {
            let applied = tensor_step(step)?.apply(stepped.catalog, &mut stepped.said);
            stepped.catalog = applied.map_err(|error| error.context(step))?;
        }
        if let (0, [first, ..]) = (stepped.said.touched, steps) {
            let spec = first.of.as_ref().map_or(&first.spec, |of| &of.spec);
            stepped.said.notes.push(format!("step {spec} changed nothing: there is no such tensor"));
        }
    }
    Ok(stepped)
}

/// The steps that undo these, in order.
///
/// # Errors
/// Usage, naming the first that has no inverse.
pub fn inverse(steps: &[Step]) -> Result<Vec<Spec>> {
    let mut specs = Vec::new();
    for steps in steps.chunk_by(is_of_one_recipe).rev() {
        if let Some(spec) = steps.first().and_then(|step| step.of.as_ref()?.inverse.clone()) {
            specs.push(spec);
            continue;
        }
        for step in steps.iter().rev() {
            if let Action::Cross(crossing) = &step.action {
                specs.push(crossing.inverse());
                continue;
            }
            specs.extend(tensor_step(step)?.inverse().map_err(|error| error.context(step))?);
        }
    }
    Ok(specs)
}

fn tensor_step(step: &Step) -> Result<&dyn TensorStep> {
    match &step.action {
        Action::Tensor(action) => Ok(&**action),
        Action::Record(_) => {
            let error = Error::usage("a step on records, and the input holds tensors: see `ferry steps`");
            Err(error.context(step))
        }
        Action::Cross(_) => {
            Err(Error::usage("both sides are tensors: nothing becomes records").context(step))
        }
    }
}

fn is_of_one_recipe(step: &Step, next: &Step) -> bool {
    matches!((&step.of, &next.of), (Some(of), Some(other)) if Arc::ptr_eq(of, other))
}

impl fmt::Display for Step {
    /// `step rename:a,to=b of bert-from-tf`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.spec)?;
        match &self.of {
            Some(of) => write!(f, " of {}", of.spec),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub mod tests;
