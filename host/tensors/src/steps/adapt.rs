//! Adapts a catalog to a target. The steps are applied to the part of the input that the user
//! selected. The result is converted to a form that the target format can store. Omitted content is
//! reported as a loss.

use super::dequantize::StoredCodes;
use super::model_facts::ModelFacts;
use super::step::Step;
use super::tensor_step::{TensorAction, apply_to};
use tensorferry_core::read::part::{self, Part};
use tensorferry_core::read::{attributes, losses, value_types};
use tensorferry_sdk::{Capabilities, Catalog, Description, Dtype, Loss, LossKind, Result};

/// An adapted catalog, which is the input of the writer.
pub struct AdaptedCatalog {
    /// The adapted tensors, metadata and tree.
    pub catalog: Catalog,
    /// The losses that the reader, `--part auto`, the steps, or the target's format have caused.
    pub losses: Vec<Loss>,
    /// Notes from the steps.
    pub notes: Vec<String>,
    /// The dtype of the dequantized weights, if no quantized weights remain.
    pub dequantized: Option<Dtype>,
    /// The tensors that contain codes of quantized weights.
    pub codes: StoredCodes,
}

/// Selects a part of a model, applies steps to it, and adapts the result to a target. The steps
/// that the model's reader requires are applied first.
pub fn select(
    model: &ModelFacts<'_>,
    part: &Part,
    of_reader: &[Step<TensorAction>],
    steps: &[Step<TensorAction>],
    target: &Description,
) -> Result<AdaptedCatalog> {
    let keeps = |capability| target.capabilities.has(capability);
    let catalog = &model.input.catalog;
    let mut lost = catalog.losses().to_vec();
    let (catalog, left_out) = part::take(catalog.clone(), part, !keeps(Capabilities::TREE))?;
    if keeps(Capabilities::TREE) && catalog.tree().nodes().iter().any(|node| node.as_tensor().is_some()) {
        // If the tensors are in a tree, each tensor keeps the name that it has in its own mapping.
        lost.retain(|loss| loss.kind != LossKind::Name);
    }
    lost.extend(left_out);
    let (catalog, was_packed) = catalog.unpacked();
    let (before, had_types) = value_types::unfold(catalog);
    let (catalog, by_reader) = apply_to(before.clone(), model, of_reader)?;
    let (mut catalog, effects) = apply_to(catalog, model, steps)?;
    // Losses in the tree do not affect a target format that does not store trees.
    let by_steps = by_reader.losses.into_iter().chain(effects.losses);
    lost.extend(by_steps.filter(|loss| keeps(Capabilities::TREE) || loss.kind != LossKind::State));
    let notes = by_reader.notes.into_iter().chain(effects.notes).collect();
    if keeps(Capabilities::TREE) {
        catalog = attributes::unfold(catalog)?;
    } else {
        let folded = if keeps(Capabilities::METADATA) { attributes::fold(&mut catalog) } else { false };
        // The losses of non-tensor values are computed from the catalog before the steps.
        // Otherwise, a list from which the user removed all tensors would count as a non-tensor
        // value of the input.
        lost.extend(losses::of_values(&before, folded));
        lost.extend(losses::of_marks(&catalog));
    }
    if !keeps(Capabilities::METADATA) {
        lost.extend(losses::of_metadata(&catalog));
    }
    if keeps(Capabilities::METADATA) && !keeps(Capabilities::VALUES) {
        let declared = value_types::fold(&mut catalog);
        // Values that the input already stored as text with declared types are unchanged, and are
        // not reported as lost.
        lost.extend(declared.filter(|_| !had_types));
    }
    let (catalog, mut unheld) = catalog.reduced_to(target.capabilities);
    if was_packed {
        // Tensors that were already packed in the input are unchanged and are not reported as lost.
        unheld.retain(|loss| loss.kind != LossKind::Tensor);
    }
    lost.extend(unheld);
    Ok(AdaptedCatalog {
        catalog,
        losses: lost,
        notes,
        dequantized: effects.dequantized,
        codes: StoredCodes::of(model),
    })
}
