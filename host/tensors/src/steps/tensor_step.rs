//! Steps on tensors: what each has to do, and what becomes of a catalog that goes through several.

use super::model_facts::ModelFacts;
use super::step::Step;
use std::fmt;
use tensorferry_sdk::{Catalog, Dtype, Error, Loss, LossKind, Result, Tensor};

/// What a step on tensors does.
pub trait TensorStep: fmt::Debug + Send + Sync {
    /// The catalog that it makes.
    ///
    /// # Errors
    /// Usage, where what the user asked for cannot be done with this catalog; unsupported, where a dtype
    /// does not allow it.
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog>;

    /// What it changes.
    fn is_about(&self) -> &'static str {
        "tensor"
    }

    /// The same, for a step that has to know more of the model than its catalog.
    ///
    /// # Errors
    /// As of [`apply`](Self::apply); what reading gives.
    fn apply_to(&self, catalog: Catalog, _: &ModelFacts<'_>, effects: &mut Effects) -> Result<Catalog> {
        self.apply(catalog, effects)
    }
}

impl Effects {
    /// A step gives a tensor other axes, or makes parts or a whole of it: what was said of the tensor may not hold
    /// any more (a spacing for each axis, say), so that it stays behind.
    pub(super) fn leave_attributes(&mut self, tensor: &Tensor) {
        let why = "a step gave the tensor other dimensions, of which its attributes may not be true";
        let lose =
            |key: &String| Loss::new(LossKind::Attribute, format!("{}: {key}", tensor.name), why).asked_for();
        self.losses.extend(tensor.attributes.keys().map(lose));
    }
}

/// Any of them.
pub type TensorAction = Box<dyn TensorStep>;

/// What steps have done, beside the catalog that they made.
#[derive(Debug, Default)]
pub struct Effects {
    /// What the catalog has no more, though the user did not ask for that.
    pub losses: Vec<Loss>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// How many tensors the step was about, or how many entries.
    pub touched: usize,
    /// What quantised weights have become, where none of them is left.
    pub dequantized: Option<Dtype>,
}

/// Applies steps, one after the other.
///
/// # Errors
/// Whatever a step says, with its name.
pub fn apply(catalog: Catalog, steps: &[Step<TensorAction>]) -> Result<(Catalog, Effects)> {
    apply_each(catalog, steps, |step, catalog, effects| step.apply(catalog, effects))
}

/// Applies steps to what was read of a model.
///
/// # Errors
/// As of [`apply`].
pub fn apply_to(
    catalog: Catalog,
    model: &ModelFacts<'_>,
    steps: &[Step<TensorAction>],
) -> Result<(Catalog, Effects)> {
    apply_each(catalog, steps, |step, catalog, effects| step.apply_to(catalog, model, effects))
}

fn apply_each(
    mut catalog: Catalog,
    steps: &[Step<TensorAction>],
    apply: impl Fn(&TensorAction, Catalog, &mut Effects) -> Result<Catalog>,
) -> Result<(Catalog, Effects)> {
    let mut effects = Effects::default();
    for steps in steps.chunk_by(Step::is_of_one_recipe) {
        effects.touched = 0;
        for step in steps {
            let applied = apply(&step.action, catalog, &mut effects);
            catalog = applied.map_err(|error: Error| error.context(step))?;
        }
        if let (0, [first, ..]) = (effects.touched, steps) {
            let spec = first.recipe.as_deref().unwrap_or(&first.spec);
            let about = first.action.is_about();
            effects.notes.push(format!("step {spec} changed nothing: there is no such {about}"));
        }
    }
    Ok((catalog, effects))
}
