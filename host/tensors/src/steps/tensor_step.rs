//! The trait for steps on tensors, and functions that apply a sequence of steps to a catalog.

use super::model_facts::ModelFacts;
use super::step::Step;
use std::fmt;
use tensorferry_sdk::{Catalog, Dtype, Error, Loss, LossKind, Result, Tensor};

/// The action of a step on tensors.
pub trait TensorStep: fmt::Debug + Send + Sync {
    /// Applies the step, and returns the changed catalog. Returns a usage error if the step cannot
    /// be applied to this catalog, and an unsupported error if a dtype does not allow the step.
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog>;

    /// Returns the word for the kind of item that the step changes, such as "tensor".
    fn is_about(&self) -> &'static str {
        "tensor"
    }

    /// Applies the step as [`apply`](Self::apply) does. A step implements this method if it needs
    /// more information about the model than the catalog.
    fn apply_to(&self, catalog: Catalog, _: &ModelFacts<'_>, effects: &mut Effects) -> Result<Catalog> {
        self.apply(catalog, effects)
    }
}

impl Effects {
    /// Reports a tensor's attributes as lost. A step calls this function if it changes the tensor's
    /// axes, splits the tensor, or joins it with others. Attributes such as the spacing along each
    /// axis may then no longer apply.
    pub(super) fn leave_attributes(&mut self, tensor: &Tensor) {
        let why = "a step changed the tensor's dimensions, so that its attributes may no longer apply";
        let lose = |key: &String| {
            Loss::new(LossKind::Attribute, format!("{}: {key}", tensor.name), why).requested_by_user()
        };
        self.losses.extend(tensor.attributes.keys().map(lose));
    }
}

pub type TensorAction = Box<dyn TensorStep>;

/// The effects of steps, apart from the changed catalog.
#[derive(Debug, Default)]
pub struct Effects {
    /// The losses of content that the user did not ask to remove.
    pub losses: Vec<Loss>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Number of tensors or metadata entries to which the steps applied.
    pub touched: usize,
    /// The dtype of the dequantized weights, if no quantized weights remain.
    pub dequantized: Option<Dtype>,
}

/// Applies steps to a catalog in order. Errors name the step.
pub fn apply(catalog: Catalog, steps: &[Step<TensorAction>]) -> Result<(Catalog, Effects)> {
    apply_each(catalog, steps, |step, catalog, effects| step.apply(catalog, effects))
}

/// Applies steps to the catalog of a model in order.
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
