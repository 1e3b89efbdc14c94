//! Decides how each node of a tree is written, depending on whether torch's `weights_only` loading
//! accepts it.

use super::composite::CompositeTensor;
use super::object::Object;
use super::storages::StoragePlan;
use super::tree::{Form, StateTree};
use super::unpacked;
use tensorferry_sdk::{CatalogView, Context, Node, NodeId, NodeKind, Result};
use tensorferry_torch_file::pickle_writer::{MAX_INTEGER_BYTES, trim_sign};

/// Fetches the nodes reachable from `root` and decides the form of each.
pub(super) fn read<'a>(
    catalog: &dyn CatalogView,
    root: NodeId,
    storages: &StoragePlan,
    context: &'a dyn Context,
) -> Result<StateTree<'a>> {
    let mut tree = StateTree::fetch(catalog, root, context)?;
    // The ID of a child is lower than the ID of its parent, so the loop decides the forms of
    // children first.
    for id in (0..=root.0).map(NodeId) {
        let Some(node) = tree.node(id) else { continue };
        tree.check_cancelled(id)?;
        let is_written = node.as_tensor().is_some_and(|tensor| storages.place(tensor).is_some());
        let holds_tensors = is_written || node.children.iter().any(|&child| tree.holds_tensors(child));
        let form = form_of(&tree, id, node, storages, holds_tensors);
        tree.set_form(id, form, holds_tensors);
    }
    Ok(tree)
}

/// Returns the form of a node. The forms of its children must already be set.
fn form_of(
    tree: &StateTree<'_>,
    id: NodeId,
    node: &Node,
    storages: &StoragePlan,
    holds_tensors: bool,
) -> Form {
    let kept = |hashable| Form::Written { hashable };
    match node.kind {
        NodeKind::NONE
        | NodeKind::BOOL
        | NodeKind::FLOAT
        | NodeKind::COMPLEX
        | NodeKind::TEXT
        | NodeKind::BYTES => kept(true),
        NodeKind::INT if trim_sign(&node.bytes).len() <= MAX_INTEGER_BYTES => kept(true),
        NodeKind::LIST | NodeKind::SET | NodeKind::MAP => kept(false),
        NodeKind::TUPLE => kept(node.children.iter().all(|&child| tree.is_hashable(child))),
        NodeKind::TENSOR => match node.as_tensor().and_then(|tensor| storages.place(tensor)) {
            Some(_) => kept(true),
            None => Form::Omitted,
        },
        NodeKind::ATTRIBUTED => {
            let value = node.children.first().map_or(Form::Refused, |&value| tree.form(value));
            let parts =
                CompositeTensor::of(tree, node).map(|composite| composite.parts(tree)).unwrap_or_default();
            let is_given_up = parts.iter().any(|&part| tree.form(part) == Form::Omitted);
            if is_given_up { Form::Omitted } else { value }
        }
        NodeKind::OBJECT => match Object::of(tree, id) {
            Some(Object::Parameter { tensor, .. }) => tree.form(tensor),
            Some(Object::ByteArray(_) | Object::FrozenSet(_)) => kept(false),
            Some(_) => kept(true),
            None if holds_tensors && unpacked::members(tree, id).is_some() => kept(false),
            None => Form::Refused,
        },
        _ => Form::Refused,
    }
}
