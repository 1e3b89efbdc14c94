//! Adapting a catalog to a target: the part that the user asked for goes through the steps, and gets the
//! shape that the target's format can take. What that leaves out is a loss.

use super::dequantize::StoredCodes;
use super::model_facts::ModelFacts;
use super::step::Step;
use super::tensor_step::{TensorAction, apply_to};
use tensorferry_core::read::part::{self, Part};
use tensorferry_core::read::{attributes, losses, value_types};
use tensorferry_sdk::{Capabilities, Catalog, Description, Dtype, Loss, LossKind, Result};

/// What goes to the writer.
pub struct Selected {
    /// The tensors, metadata and tree.
    pub catalog: Catalog,
    /// What the reader, `--part auto`, steps, or the target's format leave out.
    pub losses: Vec<Loss>,
    /// What the steps say beside that.
    pub notes: Vec<String>,
    /// What quantised weights have become, where none of them is left.
    pub dequantized: Option<Dtype>,
    /// Which tensors are codes of quantized weights.
    pub codes: StoredCodes,
}

/// Takes a part of what was read of a model, and has steps change it, for a target: first those that its reader asks for.
///
/// # Errors
/// Usage, if the part is not there, or if several could be meant; whatever a step says.
pub fn select(
    model: &ModelFacts<'_>,
    part: &Part,
    of_reader: &[Step<TensorAction>],
    steps: &[Step<TensorAction>],
    target: &Description,
) -> Result<Selected> {
    let keeps = |capability| target.capabilities.has(capability);
    let catalog = &model.input.catalog;
    let mut lost = catalog.losses().to_vec();
    let (catalog, left_out) = part::take(catalog.clone(), part, !keeps(Capabilities::TREE))?;
    if keeps(Capabilities::TREE) && catalog.tree().nodes().iter().any(|node| node.as_tensor().is_some()) {
        // There each tensor has the name that it has in its own mapping.
        lost.retain(|loss| loss.kind != LossKind::Name);
    }
    lost.extend(left_out);
    let (catalog, was_packed) = catalog.unpacked();
    let (before, had_types) = value_types::unfold(catalog);
    let (catalog, by_reader) = apply_to(before.clone(), model, of_reader)?;
    let (mut catalog, effects) = apply_to(catalog, model, steps)?;
    // What steps do to a tree is nothing to a target that has none.
    let by_steps = by_reader.losses.into_iter().chain(effects.losses);
    lost.extend(by_steps.filter(|loss| keeps(Capabilities::TREE) || loss.kind != LossKind::State));
    let notes = by_reader.notes.into_iter().chain(effects.notes).collect();
    if keeps(Capabilities::TREE) {
        catalog = attributes::unfold(catalog)?;
    } else {
        let folded = if keeps(Capabilities::METADATA) { attributes::fold(&mut catalog) } else { false };
        // A list whose tensors the user has left out is no value of the input.
        lost.extend(losses::of_values(&before, folded));
        lost.extend(losses::of_marks(&catalog));
    }
    if !keeps(Capabilities::METADATA) {
        lost.extend(losses::of_metadata(&catalog));
    }
    if keeps(Capabilities::METADATA) && !keeps(Capabilities::VALUES) {
        let said = value_types::fold(&mut catalog);
        // Texts of the input that its own types were said of stay as they were there.
        lost.extend(said.filter(|_| !had_types));
    }
    let (catalog, mut unheld) = catalog.held_by(target.capabilities);
    if was_packed {
        // What was packed in the input stays as it was there.
        unheld.retain(|loss| loss.kind != LossKind::Tensor);
    }
    lost.extend(unheld);
    Ok(Selected {
        catalog,
        losses: lost,
        notes,
        dequantized: effects.dequantized,
        codes: StoredCodes::of(model),
    })
}
