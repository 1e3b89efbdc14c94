//! Steps on tensors: what each has to do, and what becomes of a catalog that goes through several.

use super::step::Step;
use std::fmt;
use tensorferry_sdk::{Catalog, Error, Loss, Result};

/// What a step on tensors does.
pub trait TensorStep: fmt::Debug + Send + Sync {
    /// The catalog that it makes.
    ///
    /// # Errors
    /// Usage, where what the user asked for cannot be done with this catalog; unsupported, where a dtype
    /// does not allow it.
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog>;
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
}

/// Applies steps, one after the other.
///
/// # Errors
/// Whatever a step says, with its name.
pub fn apply(mut catalog: Catalog, steps: &[Step<TensorAction>]) -> Result<(Catalog, Effects)> {
    let mut effects = Effects::default();
    for steps in steps.chunk_by(Step::is_of_one_recipe) {
        effects.touched = 0;
        for step in steps {
            let applied = step.action.apply(catalog, &mut effects);
            catalog = applied.map_err(|error: Error| error.context(step))?;
        }
        if let (0, [first, ..]) = (effects.touched, steps) {
            let spec = first.recipe.as_deref().unwrap_or(&first.spec);
            effects.notes.push(format!("step {spec} changed nothing: there is no such tensor"));
        }
    }
    Ok((catalog, effects))
}
