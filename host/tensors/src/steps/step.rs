//! A step is what a spec asks for, ready to be applied. It is generic over what it acts on: see
//! `TensorStep`.

use super::signature::{CheckedSpec, Signature};
use super::spec::Spec;
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::Result;

/// A step that does what an `A` says.
#[derive(Debug)]
pub struct Step<A> {
    /// How it is written; of a recipe's step, with the parameters filled in.
    pub spec: Spec,
    /// The recipe that it is a step of, as it was written; the outermost, if they are nested.
    pub recipe: Option<Arc<Spec>>,
    /// What it does.
    pub action: A,
}

/// A kind of step: what it may be given, and how one is made.
#[derive(Debug)]
pub struct StepKind<A> {
    /// What it may be given.
    pub signature: &'static Signature,
    /// Makes what it does of a spec.
    pub make: fn(&CheckedSpec<'_>) -> Result<A>,
}

impl<A> StepKind<A> {
    /// What a spec asks for, if it is of this kind.
    ///
    /// # Errors
    /// Usage: something that a step of this kind is not given.
    pub fn action(&self, spec: &Spec) -> Option<Result<A>> {
        let is_of_this = spec.name == self.signature.name;
        is_of_this.then(|| (self.make)(&CheckedSpec::new(spec, self.signature)?))
    }
}

impl<A> Step<A> {
    /// The same step, which does what `action` makes of what it does.
    pub fn map<B>(self, action: impl FnOnce(A) -> B) -> Step<B> {
        Step { spec: self.spec, recipe: self.recipe, action: action(self.action) }
    }

    /// Whether both are steps of one recipe.
    #[must_use]
    pub(crate) fn is_of_one_recipe(&self, other: &Self) -> bool {
        matches!((&self.recipe, &other.recipe), (Some(one), Some(same)) if Arc::ptr_eq(one, same))
    }
}

impl<A> fmt::Display for Step<A> {
    /// `step rename:a,to=b of bert-from-tf`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.spec)?;
        match &self.recipe {
            Some(recipe) => write!(f, " of {recipe}"),
            None => Ok(()),
        }
    }
}
