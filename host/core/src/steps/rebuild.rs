//! Rebuilding makes a catalog of the tensors that a step gives, each with the one that it was, and has the
//! tree of non-tensor state follow.

use super::Said;
use super::replant::{Fate, replant};
use tensorferry_sdk::{Catalog, Limits, Result, Tensor, TensorId, Tree};

/// A tensor that a step gives.
pub(super) struct Made {
    /// The one that it was; `None` if there was none, or if it is a part of one.
    pub(super) was: Option<TensorId>,
    pub(super) tensor: Tensor,
}

/// The tensors of a catalog as a step that changes nothing gives them.
pub(super) fn unchanged(catalog: &Catalog) -> impl Iterator<Item = Made> + '_ {
    (0..)
        .map(TensorId)
        .zip(catalog.tensors())
        .map(|(id, tensor)| Made { was: Some(id), tensor: tensor.clone() })
}

/// A catalog of these tensors, over the same storages. Each is proved anew.
///
/// # Errors
/// Malformed, for what the proof refuses; usage, where a name is taken by other state.
pub(super) fn rebuild(catalog: Catalog, made: Vec<Made>, said: &mut Said) -> Result<Catalog> {
    let limits = Limits::default();
    let tree = follow(&catalog, &made, &limits, said)?;
    catalog.with_tensors(made.into_iter().map(|made| made.tensor).collect(), tree, &limits)
}

/// The tree for other tensors; `None` if it may stay.
fn follow(catalog: &Catalog, made: &[Made], limits: &Limits, said: &mut Said) -> Result<Option<Tree>> {
    let old = catalog.tensors();
    let stays = |(place, made): (usize, &Made)| {
        made.was == Some(TensorId(u32::try_from(place).unwrap_or(u32::MAX)))
            && old.get(place).is_some_and(|tensor| tensor.name == made.tensor.name)
    };
    let all_stay = made.len() == old.len() && made.iter().enumerate().all(stays);
    if all_stay || !catalog.tree().nodes().iter().any(|node| node.as_tensor().is_some()) {
        return Ok(None);
    }
    let mut fates = vec![Fate::Gone; old.len()];
    let mut added = Vec::new();
    for (place, made) in (0..).map(TensorId).zip(made) {
        match made.was.and_then(|was| Some((fates.get_mut(was.0 as usize)?, old.get(was.0 as usize)?))) {
            Some((fate, tensor)) if tensor.name == made.tensor.name => *fate = Fate::Stays(place),
            Some((fate, _)) => *fate = Fate::Moves(place, &made.tensor.name),
            None => added.push((place, made.tensor.name.as_str())),
        }
    }
    let names: Vec<&str> = old.iter().map(|tensor| tensor.name.as_str()).collect();
    let (tree, losses) = replant(catalog.tree(), &fates, &names, &added, limits)?;
    said.losses.extend(losses);
    Ok(Some(tree))
}
