//! A recipe is a list of steps under one name, as data.

use super::Step;
use super::spec::Spec;
use tensorferry_sdk::Result;

/// The names of the recipes that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    std::iter::empty()
}

/// The steps of a recipe; `None` if there is none of this name.
///
/// # Errors
/// Usage.
pub fn make(_spec: &Spec) -> Result<Option<Vec<Step>>> {
    Ok(None)
}
