//! The mappings of a tree into which tensors can be placed. They are found by their paths.

use std::collections::{HashMap, HashSet};
use tensorferry_core::read::part::join;
use tensorferry_sdk::{Node, NodeId, NodeKind, Tree};

/// The mappings that can be reached from the root through mappings, lists and tuples.
pub(super) struct MappingIndex {
    root: NodeId,
    by_path: HashMap<String, NodeId>,
    all: HashSet<NodeId>,
}

impl MappingIndex {
    /// Returns the mappings of a tree, or `None` if the root of the tree is not a mapping.
    pub(super) fn of(tree: &Tree, root: NodeId) -> Option<Self> {
        let node = |id: NodeId| &tree.nodes()[id.0 as usize];
        // Skips the nodes that set attributes, and returns the node on which they are set.
        let value = |mut id: NodeId| {
            while node(id).kind == NodeKind::ATTRIBUTED {
                id = node(id).children[0];
            }
            id
        };
        let root = value(root);
        if node(root).kind != NodeKind::MAP {
            return None;
        }
        let mut mappings = Self { root, by_path: HashMap::new(), all: HashSet::new() };
        let (mut open, mut seen) = (vec![(root, String::new())], HashSet::from([root]));
        while let Some((id, path)) = open.pop() {
            let mut enter = |child: NodeId, key: String| {
                let child = value(child);
                let is_container =
                    matches!(node(child).kind, NodeKind::MAP | NodeKind::LIST | NodeKind::TUPLE);
                if is_container && seen.insert(child) {
                    open.push((child, join(&path, &key)));
                }
            };
            match node(id).kind {
                NodeKind::MAP => {
                    node(id).entries().for_each(|(key, child)| enter(child, key_of(node(key))));
                    mappings.by_path.entry(path).or_insert(id);
                    mappings.all.insert(id);
                }
                _ => (0..).zip(&node(id).children).for_each(|(index, child): (u64, _)| {
                    enter(*child, index.to_string());
                }),
            }
        }
        Some(mappings)
    }

    /// Returns the mapping into which a tensor with this name is placed, and the tensor's key in
    /// that mapping.
    pub(super) fn of_name<'n>(&self, name: &'n str) -> (NodeId, &'n str) {
        // The prefixes of the name are tried from the longest to the shortest.
        let ends = name.rmatch_indices('.').map(|(end, _)| (&name[..end], &name[end + 1..]));
        let found = ends.filter_map(|(path, key)| Some((*self.by_path.get(path)?, key))).next();
        found.unwrap_or((self.root, name))
    }

    /// Returns whether a node is one of the mappings.
    pub(super) fn contains(&self, id: NodeId) -> bool {
        self.all.contains(&id)
    }
}

/// Converts a key to a part of a path.
pub(super) fn key_of(key: &Node) -> String {
    let number = || key.as_int().map(|number| number.to_string());
    key.as_text().map(str::to_owned).or_else(number).unwrap_or_else(|| "?".to_owned())
}
