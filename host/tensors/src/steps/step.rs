//! A step that was created from a spec and is ready to be applied. The type is generic over the
//! action of the step: see `TensorStep`.

use super::signature::{CheckedSpec, Signature};
use super::spec::Spec;
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::Result;

/// A step whose action has the type `A`.
#[derive(Debug)]
pub struct Step<A> {
    /// The spec of the step. If the step is from a recipe, the spec contains the values of the
    /// recipe's parameters.
    pub spec: Spec,
    /// The spec of the recipe that contains the step. If recipes are nested, this is the outermost
    /// recipe.
    pub recipe: Option<Arc<Spec>>,
    pub action: A,
}

/// A kind of step: its signature, and the function that creates its action.
#[derive(Debug)]
pub struct StepKind<A> {
    /// The argument and keys that the step accepts.
    pub signature: &'static Signature,
    /// Creates the action from a spec.
    pub make: fn(&CheckedSpec<'_>) -> Result<A>,
}

impl<A> StepKind<A> {
    /// Creates the action for a spec, or returns `None` if the spec is for a different kind of
    /// step.
    pub fn action(&self, spec: &Spec) -> Option<Result<A>> {
        let is_of_this = spec.name == self.signature.name;
        is_of_this.then(|| (self.make)(&CheckedSpec::new(spec, self.signature)?))
    }
}

impl<A> Step<A> {
    /// Converts the action, and keeps the spec and the recipe.
    pub fn map<B>(self, action: impl FnOnce(A) -> B) -> Step<B> {
        Step { spec: self.spec, recipe: self.recipe, action: action(self.action) }
    }

    /// Returns whether both steps come from the same use of a recipe.
    #[must_use]
    pub(crate) fn is_of_one_recipe(&self, other: &Self) -> bool {
        matches!((&self.recipe, &other.recipe), (Some(one), Some(same)) if Arc::ptr_eq(one, same))
    }
}

impl<A> fmt::Display for Step<A> {
    /// Writes the step as it appears in messages, such as `step rename:a,to=b of bert-from-tf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.spec)?;
        match &self.recipe {
            Some(recipe) => write!(f, " of {recipe}"),
            None => Ok(()),
        }
    }
}
