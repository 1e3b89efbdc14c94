//! Builds the nested state from the paths of its entries.
//!
//! A branch whose steps are keys becomes a MAP, and a branch whose steps are indices becomes a
//! LIST. If some indices are missing, the branch becomes a MAP with numbers as keys, so that the
//! names do not change. Indices are missing if a list contained an empty dict, because empty dicts
//! are not stored.

use crate::table::Step;
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogSink, Error, Node, NodeId, NodeKind, Result};

/// The nested state, built from paths. In `branches`, each branch follows its parent.
#[derive(Debug)]
pub(crate) struct NestedState {
    branches: Vec<Branch>,
}

#[derive(Debug, Default)]
struct Branch {
    children: Vec<(Step, Child)>,
    places: BTreeMap<Step, usize>,
}

#[derive(Debug, Clone, Copy)]
enum Child {
    Branch(usize),
    Leaf(NodeId),
}

impl Default for NestedState {
    fn default() -> Self {
        Self { branches: vec![Branch::default()] }
    }
}

impl NestedState {
    /// Inserts a node at the given path.
    pub(crate) fn put(&mut self, path: Vec<Step>, leaf: NodeId) -> Result<()> {
        let taken =
            || Error::malformed("its path is the path of another entry, or passes through another entry");
        let mut at = 0;
        let last = path.len().saturating_sub(1);
        for (depth, step) in path.into_iter().enumerate() {
            let known = self.branches[at].places.get(&step).map(|&place| self.branches[at].children[place].1);
            at = match known {
                Some(Child::Branch(branch)) if depth < last => branch,
                Some(_) => return Err(taken()),
                None => {
                    let branch = self.branches.len();
                    let child = if depth < last { Child::Branch(branch) } else { Child::Leaf(leaf) };
                    let parent = &mut self.branches[at];
                    parent.places.insert(step.clone(), parent.children.len());
                    parent.children.push((step, child));
                    if depth < last {
                        self.branches.push(Branch::default());
                    }
                    branch
                }
            };
        }
        Ok(())
    }

    /// Adds all nodes to the catalog, and sets the root of its tree.
    pub(crate) fn add_nodes(&self, catalog: &mut dyn CatalogSink) -> Result<()> {
        let mut nodes: Vec<Option<NodeId>> = vec![None; self.branches.len()];
        for (place, branch) in self.branches.iter().enumerate().rev() {
            nodes[place] = Some(branch.add_nodes(&nodes, catalog)?);
        }
        nodes.first().copied().flatten().map_or(Ok(()), |root| catalog.root(root))
    }
}

impl Branch {
    fn add_nodes(&self, nodes: &[Option<NodeId>], catalog: &mut dyn CatalogSink) -> Result<NodeId> {
        let node = |child| match child {
            Child::Leaf(node) => Ok(node),
            Child::Branch(branch) => {
                nodes[branch].ok_or_else(|| Error::plugin("a branch precedes its parent"))
            }
        };
        // The map is sorted, with indices before keys.
        let is_list = !self.children.is_empty()
            && self.places.keys().zip(0..).all(|(step, index)| *step == Step::Index(index));
        if is_list {
            let items = self.places.values().map(|&place| node(self.children[place].1));
            return catalog.node(Node::container(NodeKind::LIST, "", items.collect::<Result<Vec<_>>>()?));
        }
        let mut entries = Vec::with_capacity(self.children.len());
        for (step, child) in &self.children {
            let key = match step {
                Step::Key(key) => Node::text(key),
                Step::Index(index) => Node::int(i64::try_from(*index).unwrap_or(i64::MAX)),
            };
            entries.push((catalog.node(key)?, node(*child)?));
        }
        catalog.node(Node::map("", &entries))
    }
}
