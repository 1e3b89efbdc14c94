//! Builds a catalog from the tensors that a step produces, and updates the tree of non-tensor
//! state. Each tensor refers to the old tensor that it replaces.

use super::tensor_step::Effects;
use super::tree::{self, Change};
use tensorferry_sdk::{Catalog, Limits, Result, Tensor, TensorId, Tree};

/// A tensor in the result of a step.
pub(super) struct StepTensor {
    /// The old tensor that this tensor replaces; `None` for a new tensor, or for only a part of an
    /// old tensor.
    pub(super) old: Option<TensorId>,
    pub(super) tensor: Tensor,
}

impl StepTensor {
    /// Creates the entry for an unchanged tensor.
    pub(super) fn kept(old: TensorId, tensor: &Tensor) -> Self {
        Self { old: Some(old), tensor: tensor.clone() }
    }
}

/// Iterates over the unchanged tensors of a catalog.
pub(super) fn unchanged(catalog: &Catalog) -> impl Iterator<Item = StepTensor> + '_ {
    (0..).map(TensorId).zip(catalog.tensors()).map(|(id, tensor)| StepTensor::kept(id, tensor))
}

/// Returns a catalog with these tensors and the storages of the old catalog. Each tensor is
/// validated again.
pub(super) fn rebuild(catalog: Catalog, tensors: Vec<StepTensor>, effects: &mut Effects) -> Result<Catalog> {
    let limits = catalog.limits().clone();
    let tree = follow(&catalog, &tensors, &limits, effects)?;
    let has_new_names = tensors.iter().any(|new| {
        new.old.is_none_or(|old| catalog.tensor(old).is_none_or(|old| old.name != new.tensor.name))
    });
    // New keys in the tree are whole tensor names. They contain dots, which does not follow the
    // conventions of the original format.
    let catalog = if tree.is_some() && has_new_names { catalog.without_origin() } else { catalog };
    catalog.with_tensors(tensors.into_iter().map(|new| new.tensor).collect(), tree, &limits)
}

/// Returns the tree for the new tensors, or `None` if the tree does not change.
fn follow(
    catalog: &Catalog,
    tensors: &[StepTensor],
    limits: &Limits,
    effects: &mut Effects,
) -> Result<Option<Tree>> {
    let old = catalog.tensors();
    let is_kept = |(place, new): (u32, &StepTensor)| {
        new.old == Some(TensorId(place)) && old[place as usize].name == new.tensor.name
    };
    let all_are_kept = tensors.len() == old.len() && (0..).zip(tensors).all(is_kept);
    if all_are_kept || !catalog.tree().nodes().iter().any(|node| node.as_tensor().is_some()) {
        return Ok(None);
    }
    let mut changes = vec![Change::Removed; old.len()];
    let mut added = Vec::new();
    for (place, new) in (0..).map(TensorId).zip(tensors) {
        let name = new.tensor.name.as_str();
        match new.old.map(|old| old.0 as usize) {
            Some(id) if old[id].name == name => changes[id] = Change::Kept(place),
            Some(id) => changes[id] = Change::Renamed(place, name),
            None => added.push((place, name)),
        }
    }
    let names: Vec<&str> = old.iter().map(|tensor| tensor.name.as_str()).collect();
    let (tree, losses) = tree::follow(catalog.tree(), &changes, &names, &added, limits)?;
    effects.losses.extend(losses);
    Ok(Some(tree))
}
