//! The trait of steps on tensors, and applying a sequence of them to a catalog.

use super::model_facts::ModelFacts;
use super::step::Step;
use std::fmt;
use tensorferry_sdk::{Catalog, Dtype, Error, Loss, LossKind, Result, Tensor};

/// The action of a step on tensors.
pub trait TensorStep: fmt::Debug + Send + Sync {
    /// Returns the changed catalog. Fails with a usage error if the step is impossible with this
    /// catalog, and as unsupported if a dtype does not allow it.
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog>;

    /// Returns what it changes.
    fn is_about(&self) -> &'static str {
        "tensor"
    }

    /// Does the same as [`apply`](Self::apply), for a step that needs more of the model than its
    /// catalog.
    fn apply_to(&self, catalog: Catalog, _: &ModelFacts<'_>, effects: &mut Effects) -> Result<Catalog> {
        self.apply(catalog, effects)
    }
}

impl Effects {
    /// Drops the attributes of a tensor that gets different axes, or is split or joined: they may
    /// no longer apply, such as a spacing for each axis.
    pub(super) fn leave_attributes(&mut self, tensor: &Tensor) {
        let why = "a step changed the tensor's dimensions, so that its attributes may no longer apply";
        let lose = |key: &String| {
            Loss::new(LossKind::Attribute, format!("{}: {key}", tensor.name), why).requested_by_user()
        };
        self.losses.extend(tensor.attributes.keys().map(lose));
    }
}

pub type TensorAction = Box<dyn TensorStep>;

/// The effects of steps in addition to the changed catalog.
#[derive(Debug, Default)]
pub struct Effects {
    /// Contents that were lost although the user did not remove them.
    pub losses: Vec<Loss>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Number of tensors or entries that the step applied to.
    pub touched: usize,
    /// The dtype of dequantized weights, if no quantized ones are left.
    pub dequantized: Option<Dtype>,
}

/// Applies steps, one after the other. Errors name the step.
pub fn apply(catalog: Catalog, steps: &[Step<TensorAction>]) -> Result<(Catalog, Effects)> {
    apply_each(catalog, steps, |step, catalog, effects| step.apply(catalog, effects))
}

/// Applies steps to a model that was read.
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
            effects.notes.push(format!("step {spec} changed nothing: no such {about}"));
        }
    }
    Ok((catalog, effects))
}
