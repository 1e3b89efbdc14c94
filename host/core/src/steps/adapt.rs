//! Adapting a catalog to a target: the part that the user asked for goes through the steps, and gets the
//! shape that the target's format can take. What that leaves out is a loss.

use super::step::Step;
use super::tensor_step::{TensorAction, apply};
use crate::read::part::{self, Part};
use crate::read::{attributes, losses};
use tensorferry_sdk::{Capabilities, Catalog, Description, Loss, LossKind, Result};

/// What goes to the writer.
pub struct Selected {
    /// The tensors, metadata and tree.
    pub catalog: Catalog,
    /// What the reader, `--part auto`, steps, or the target's format leave out.
    pub losses: Vec<Loss>,
    /// What the steps say beside that.
    pub notes: Vec<String>,
}

/// Takes a part of a catalog, and has steps change it, for a target.
///
/// # Errors
/// Usage, if the part is not there, or if several could be meant; whatever a step says.
pub fn select(
    catalog: &Catalog,
    part: &Part,
    steps: &[Step<TensorAction>],
    target: &Description,
) -> Result<Selected> {
    let keeps = |capability| target.capabilities.has(capability);
    let mut lost = catalog.losses().to_vec();
    let (catalog, left_out) = part::take(catalog.clone(), part, !keeps(Capabilities::TREE))?;
    lost.extend(left_out);
    let (catalog, was_packed) = catalog.unpacked();
    let (mut catalog, effects) = apply(catalog, steps)?;
    lost.extend(effects.losses);
    if keeps(Capabilities::TREE) {
        catalog = attributes::unfold(catalog)?;
    } else {
        let folded = if keeps(Capabilities::METADATA) { attributes::fold(&mut catalog) } else { false };
        lost.extend(losses::of_state(&catalog, folded));
    }
    if !keeps(Capabilities::METADATA) {
        lost.extend(losses::of_metadata(&catalog));
    }
    let (catalog, mut unheld) = catalog.held_by(target.capabilities);
    if was_packed {
        // What was packed in the input stays as it was there.
        unheld.retain(|loss| loss.kind != LossKind::Tensor);
    }
    lost.extend(unheld);
    Ok(Selected { catalog, losses: lost, notes: effects.notes })
}
