//! Unpacks objects that contain tensors and whose classes torch refuses. Each object becomes a dict
//! whose keys are the names of its members. Without this, one custom object would force the writer
//! to drop the whole tree.

use super::tree::{StateTree, Step};
use std::collections::HashSet;
use tensorferry_sdk::{Node, NodeId, NodeKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberKey {
    /// The key of an attribute or item.
    Node(NodeId, Step),
    /// The index of an argument or appended value.
    Index(usize),
}

/// A key, its value, and the step that leads to the value.
pub(super) type Member = (MemberKey, NodeId, Step);

/// Returns the members of an object. Arguments and appended values are named by index, and
/// attributes and items by key. Returns `None` if the node is not an object, if a part of it has no
/// names, or if two members have the same name.
pub(super) fn members(tree: &StateTree<'_>, object: NodeId) -> Option<Vec<Member>> {
    let node = tree.node(object).filter(|node| node.kind == NodeKind::OBJECT)?;
    let mut members = Vec::new();
    for &part in &node.children {
        add(tree, part, &mut members)?;
    }
    let mut names = HashSet::new();
    members.iter().all(|(key, ..)| names.insert(name(tree, *key))).then_some(members)
}

/// Adds the members of one part of an object. If the part is a pair of mappings, it is the state of
/// a class with `__slots__`.
fn add(tree: &StateTree<'_>, part: NodeId, members: &mut Vec<Member>) -> Option<()> {
    let node = tree.node(part)?;
    let is_attributes =
        |id: &NodeId| tree.node(*id).is_some_and(|node| matches!(node.kind, NodeKind::MAP | NodeKind::NONE));
    match node.kind {
        NodeKind::NONE => {}
        NodeKind::MAP => {
            let of_map = node.entries().enumerate().map(|(index, (key, value))| {
                (MemberKey::Node(key, (part, 2 * index)), value, (part, 2 * index + 1))
            });
            members.extend(of_map);
        }
        NodeKind::TUPLE if node.children.len() == 2 && node.children.iter().all(is_attributes) => {
            for &half in &node.children {
                add(tree, half, members)?;
            }
        }
        NodeKind::TUPLE | NodeKind::LIST => {
            let values = node.children.iter().enumerate();
            members.extend(values.map(|(index, &value)| (MemberKey::Index(index), value, (part, index))));
        }
        // If the state of an object is a single value, that value has no name.
        _ => return None,
    }
    Some(())
}

fn name(tree: &StateTree<'_>, key: MemberKey) -> String {
    match key {
        MemberKey::Index(index) => index.to_string(),
        MemberKey::Node(id, _) => {
            let node = tree.node(id);
            let text = node.and_then(Node::as_text).map(str::to_owned);
            let number = || node.and_then(Node::as_int).map(|number| number.to_string());
            text.or_else(number).unwrap_or_else(|| format!("?{}", id.0))
        }
    }
}
