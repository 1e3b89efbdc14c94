//! A step that was made from a spec and is ready to be applied. It is generic over its action: see
//! `TensorStep`.

use super::signature::{CheckedSpec, Signature};
use super::spec::Spec;
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::Result;

/// A step with an action of type `A`.
#[derive(Debug)]
pub struct Step<A> {
    /// The spec of the step. In a step from a recipe, the recipe's parameters are filled in.
    pub spec: Spec,
    /// The spec of the recipe that contains the step. If recipes are nested, this is the outermost
    /// recipe.
    pub recipe: Option<Arc<Spec>>,
    pub action: A,
}

/// A kind of step: its signature, and the function that makes its action.
#[derive(Debug)]
pub struct StepKind<A> {
    /// The argument and keys that the step accepts.
    pub signature: &'static Signature,
    /// Makes the action from a spec.
    pub make: fn(&CheckedSpec<'_>) -> Result<A>,
}

impl<A> StepKind<A> {
    /// Makes the action of a spec, if the spec is of this kind.
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
    /// Writes, for example, `step rename:a,to=b of bert-from-tf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.spec)?;
        match &self.recipe {
            Some(recipe) => write!(f, " of {recipe}"),
            None => Ok(()),
        }
    }
}
