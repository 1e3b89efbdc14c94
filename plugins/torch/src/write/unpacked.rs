//! Unpacks objects of classes that torch refuses and that hold tensors into dicts of what they held, under the
//! names that their tensors have. So one object of a script's own does not cost the whole tree.

use super::tree::{StateTree, Step};
use std::collections::HashSet;
use tensorferry_sdk::{Node, NodeId, NodeKind};

/// A key of the dict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberKey {
    /// Of an attribute or an item.
    Node(NodeId, Step),
    /// Of an argument, or of what was appended.
    Index(usize),
}

/// A key, what is under it, and the way there.
pub(super) type Member = (MemberKey, NodeId, Step);

/// What an object held: its arguments by their place, its attributes, items and appended values by
/// theirs. `None`, if it is no object, or if two of them have one name.
pub(super) fn members(tree: &StateTree<'_>, object: NodeId) -> Option<Vec<Member>> {
    let node = tree.node(object).filter(|node| node.kind == NodeKind::OBJECT)?;
    let mut members = Vec::new();
    for &part in &node.children {
        add(tree, part, &mut members)?;
    }
    let mut names = HashSet::new();
    members.iter().all(|(key, ..)| names.insert(name(tree, *key))).then_some(members)
}

/// Adds the members of an object's part; a pair of mappings is a state with slots.
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
        // A state that is one value has no name of its own.
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
