//! Splits a model into shards. Each shard is a file with a state dict of some of the tensors.
//! Tensors that share a storage are in the same shard, and their storage counts only once, as in
//! `split_torch_state_dict_into_shards` of huggingface_hub.

use super::storages::StoragePlan;
use crate::choose::NAMING;
use std::collections::BTreeMap;
use tensorferry_hub::{Index, Names, split};
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{
    CatalogView, LayoutSink, Loss, LossKind, Node, NodeKind, Result, Role, Target, TensorId,
};

/// Returns the records of each shard, in order. If all records fit into one shard, there is only
/// one.
pub(super) fn divide(storages: &StoragePlan, max: Option<u64>) -> Vec<Vec<usize>> {
    split(storages.records.iter().map(|record| record.len).enumerate(), max)
}

pub(super) fn names(target: &Target) -> Names {
    Names::of(&NAMING, target)
}

/// Lays out the index, which maps the name of each tensor to the name of the file that contains it.
pub(super) fn write_index(
    catalog: &dyn CatalogView,
    names: &Names,
    shards: &[(String, StoragePlan)],
    layout: &mut dyn LayoutSink,
) -> Result<()> {
    let mut weight_map = BTreeMap::new();
    let mut total_size = 0_u64;
    for (path, storages) in shards {
        let held = catalog.tensor_ids().filter(|&id| storages.place(id).is_some());
        weight_map.extend(held.map(|id| (catalog.tensor(id).name, path.as_str())));
        total_size = storages.records.iter().fold(total_size, |sum, record| sum.saturating_add(record.len));
    }
    let file = layout.file(&names.index(), Role::Index)?;
    layout.bytes(file, &Index::encode(total_size, &weight_map)?)?;
    Ok(())
}

/// Declares that the output replaces the files of an older split of the same model.
pub(super) fn supersede(target: &Target, names: &Names, layout: &mut dyn LayoutSink) -> Result<()> {
    let is_of_hub = match target {
        Target::Folder => true,
        Target::File(name) => has_any_suffix(name, [NAMING.suffix, NAMING.index_suffix]),
    };
    // If the output has a different suffix, a `model.bin` next to it may be an unrelated file.
    let superseded = if is_of_hub { names.superseded() } else { Vec::new() };
    superseded.into_iter().try_for_each(|(pattern, role)| layout.supersedes(&pattern, role))
}

/// Reports a loss if the tree contains more than a flat mapping of names to tensors. Shards cannot
/// store any other values.
pub(super) fn report_lost_state(catalog: &dyn CatalogView, layout: &mut dyn LayoutSink) -> Result<()> {
    let Some(root) = catalog.root() else { return Ok(()) };
    if is_state_dict(catalog, &catalog.node(root)?)? {
        return Ok(());
    }
    let why = "shards hold only names and tensors; without -o max_shard_size everything is kept";
    layout.loss(Loss::new(LossKind::State, ".", why))
}

/// Returns whether a node is a mapping whose values are tensors and whose keys are their names.
fn is_state_dict(catalog: &dyn CatalogView, root: &Node) -> Result<bool> {
    if root.kind != NodeKind::MAP {
        return Ok(false);
    }
    for (key, value) in root.entries() {
        let key = catalog.node(key)?;
        let mut value = catalog.node(value)?;
        if let (NodeKind::ATTRIBUTED, Some(&inner)) = (value.kind, value.children.first()) {
            value = catalog.node(inner)?;
        }
        let name = value.as_tensor().map(|id: TensorId| catalog.tensor(id).name);
        if name.is_none() || name != key.as_text() {
            return Ok(false);
        }
    }
    Ok(true)
}
